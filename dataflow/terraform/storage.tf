# Models, job files, temporary files and tables. Conversations may be elsewhere.
resource "google_storage_bucket" "onepass" {
  name                        = var.bucket
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # What Dataflow leaves behind. Job files and tables stay.
  lifecycle_rule {
    condition {
      age            = 7
      matches_prefix = ["temp/"]
    }
    action {
      type = "Delete"
    }
  }
}

resource "google_artifact_registry_repository" "onepass" {
  repository_id = "onepass"
  location      = var.region
  format        = "DOCKER"
  description   = "Image of launcher and workers"

  depends_on = [google_project_service.needed]
}
