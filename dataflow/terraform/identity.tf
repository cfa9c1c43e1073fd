# Two identities. Workers read conversations and models and write tables; the scheduler may start
# the job, and nothing else.
resource "google_service_account" "worker" {
  account_id   = "onepass-worker"
  display_name = "onepass: launcher and workers"
}

resource "google_service_account" "scheduler" {
  account_id   = "onepass-scheduler"
  display_name = "onepass: starts the scheduled job"
}

resource "google_project_iam_member" "worker_runs_jobs" {
  project = var.project
  role    = "roles/dataflow.worker"
  member  = google_service_account.worker.member
}

resource "google_storage_bucket_iam_member" "worker_writes" {
  bucket = google_storage_bucket.onepass.name
  role   = "roles/storage.objectAdmin"
  member = google_service_account.worker.member
}

resource "google_storage_bucket_iam_member" "worker_reads" {
  for_each = var.input_buckets

  bucket = each.value
  role   = "roles/storage.objectViewer"
  member = google_service_account.worker.member
}

resource "google_artifact_registry_repository_iam_member" "worker_pulls" {
  repository = google_artifact_registry_repository.onepass.name
  location   = google_artifact_registry_repository.onepass.location
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.worker.member
}

resource "google_project_iam_member" "scheduler_launches" {
  project = var.project
  role    = "roles/dataflow.developer"
  member  = google_service_account.scheduler.member
}

resource "google_service_account_iam_member" "scheduler_acts_as_worker" {
  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.scheduler.member
}

resource "google_storage_bucket_iam_member" "scheduler_reads_template" {
  bucket = google_storage_bucket.onepass.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.scheduler.member

  condition {
    title      = "template only"
    expression = "resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/templates/\")"
  }
}
