locals {
  # {"url": ..., "body": ...}: the request that `onepass launch` would send. Its job name never
  # changes, so a run that takes too long is not overtaken by the next one; the date of a run is
  # found when it starts.
  launches = { for name, job in var.jobs : name => jsondecode(file(job.request)) }
}

resource "google_cloud_scheduler_job" "onepass" {
  for_each = local.launches

  name             = each.value.body.launchParameter.jobName
  description      = "Starts the onepass job ${each.key}"
  region           = var.region
  schedule         = var.jobs[each.key].schedule
  time_zone        = var.time_zone
  attempt_deadline = "180s"

  retry_config {
    retry_count          = 3
    min_backoff_duration = "60s"
    max_backoff_duration = "600s"
  }

  http_target {
    http_method = "POST"
    uri         = each.value.url
    headers     = { "Content-Type" = "application/json" }
    body        = base64encode(jsonencode(each.value.body))

    oauth_token {
      service_account_email = google_service_account.scheduler.email
      scope                 = "https://www.googleapis.com/auth/cloud-platform"
    }
  }

  lifecycle {
    precondition {
      condition     = each.value.body.launchParameter.environment.serviceAccountEmail == google_service_account.worker.email
      error_message = "The request runs as another identity; set options.service_account_email of the job to the worker's and write the request again."
    }
    precondition {
      condition     = strcontains(each.value.url, "/projects/${var.project}/locations/${var.region}/")
      error_message = "The request is for another project or region; set options.project and options.region of the job and write the request again."
    }
  }

  depends_on = [google_project_service.needed]
}
