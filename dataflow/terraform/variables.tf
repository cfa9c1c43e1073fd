variable "project" {
  description = "Project everything is in."
  type        = string
}

variable "region" {
  description = "Region of bucket, images, jobs and schedule. It needs C4 or C3 machines."
  type        = string
}

variable "bucket" {
  description = "Name of the bucket for models, job files, temporary files and tables."
  type        = string
}

variable "input_buckets" {
  description = "Buckets the conversations are in, if not in `bucket`; workers may read them."
  type        = set(string)
  default     = []
}

variable "jobs" {
  description = "Scheduled jobs: what `onepass launch JOB --request-file FILE` wrote, and when to send it, as in cron."
  type        = map(object({ request = string, schedule = string }))
  default     = {}
}

variable "time_zone" {
  description = "Time zone of the schedules."
  type        = string
  default     = "UTC"
}

variable "alert_emails" {
  description = "Who is told when a run fails, is stuck or has too many errors."
  type        = set(string)
}

variable "longest_run_hours" {
  description = "A run that takes longer is taken for stuck."
  type        = number
  default     = 6
}

variable "most_errors" {
  description = "Error rows in one run above which somebody is told."
  type        = number
  default     = 100
}
