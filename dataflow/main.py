"""What the template's launcher runs; everything is in the package."""

from dataflow.launcher import main

if __name__ == "__main__":
    main()
