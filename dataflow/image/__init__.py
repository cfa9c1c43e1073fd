"""What is run while the image is built."""
