output "worker" {
  description = "For options.service_account_email of the job."
  value       = google_service_account.worker.email
}

output "images" {
  description = "Where the image is pushed."
  value       = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.onepass.repository_id}"
}

output "bucket" {
  description = "For output, temp_location and staging_location of the job."
  value       = "gs://${google_storage_bucket.onepass.name}"
}
