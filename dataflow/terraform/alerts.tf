locals {
  channels  = [for channel in google_monitoring_notification_channel.email : channel.id]
  run_limit = var.longest_run_hours * 3600
  job_names = { for name, launch in local.launches : name => launch.body.launchParameter.jobName }
  of_job = {
    for name, job in local.job_names :
    name => "resource.type = \"dataflow_job\" AND resource.label.job_name = \"${job}\""
  }
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  display_name = "onepass: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }
}

# Also raised by the run itself: it fails when its counts do not reconcile or its error rate passes
# max_error_rate.
resource "google_monitoring_alert_policy" "failed" {
  for_each = local.job_names

  display_name          = "${each.value}: a run failed"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = "job failed"
    condition_threshold {
      filter          = "metric.type = \"dataflow.googleapis.com/job/is_failed\" AND ${local.of_job[each.key]}"
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"
      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "The run's manifest in `_runs/` says why if it got that far; else the job's log. The next run resumes nothing by itself: launch with resume=true to keep finished parts."
  }
}

resource "google_monitoring_alert_policy" "stuck" {
  for_each = local.job_names

  display_name          = "${each.value}: a run takes too long"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = "running longer than ${var.longest_run_hours} hours"
    condition_threshold {
      filter          = "metric.type = \"dataflow.googleapis.com/job/elapsed_time\" AND ${local.of_job[each.key]}"
      comparison      = "COMPARISON_GT"
      threshold_value = local.run_limit
      duration        = "0s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "Look for workers that are starting again and again (weights, memory, AMX) or for one part that never ends. Cancelling loses nothing that is finished: launch again with resume=true."
  }
}

resource "google_monitoring_alert_policy" "errors" {
  for_each = local.job_names

  display_name          = "${each.value}: too many errors"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = "more than ${var.most_errors} error rows"
    condition_threshold {
      filter          = "metric.type = \"dataflow.googleapis.com/job/user_counter\" AND metric.label.metric_name = \"errors\" AND ${local.of_job[each.key]}"
      comparison      = "COMPARISON_GT"
      threshold_value = var.most_errors
      duration        = "0s"
      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "The table `errors` has one row each, with a code; `error_rates` in BigQuery counts them."
  }
}

# The scheduler could not start the job: missing rights, a template that is gone, or a run of
# before that is still active.
resource "google_monitoring_alert_policy" "not_started" {
  for_each = local.job_names

  display_name          = "${each.value}: the schedule could not start it"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = "scheduler reports an error"
    condition_matched_log {
      filter = "resource.type = \"cloud_scheduler_job\" AND resource.labels.job_id = \"${each.value}\" AND severity >= ERROR"
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }
}
