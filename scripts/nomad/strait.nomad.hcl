# A Strait fleet on Nomad: two coordinators at an etcd that is there already, and workers.
#
#   nomad job run -var etcd=10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 -var workers=8 strait.nomad.hcl
#
# stctl is on every client, at var.stctl; var.checkpoints is one folder that all clients mount.

variable "etcd" {
  type        = string
  description = "HOST:PORT,… of etcd"
}

variable "workers" {
  type    = number
  default = 3
}

variable "slots" {
  type    = number
  default = 4
}

variable "checkpoints" {
  type    = string
  default = "/mnt/strait/checkpoints"
}

variable "stctl" {
  type    = string
  default = "/usr/local/bin/stctl"
}

job "strait" {
  datacenters = ["*"]
  type        = "service"

  group "coordinator" {
    count = 2

    constraint {
      distinct_hosts = true
    }

    network {
      port "ops" {}
    }

    restart {
      attempts = 10
      interval = "5m"
      delay    = "2s"
      mode     = "delay"
    }

    task "coordinator" {
      driver       = "raw_exec"
      kill_signal  = "SIGTERM"
      kill_timeout = "60s"

      config {
        command = var.stctl
        args = [
          "serve", "coordinator",
          "--name", "c${NOMAD_ALLOC_INDEX}",
          "--etcd-endpoints", "${var.etcd}",
          "--checkpoint-dir", "${var.checkpoints}",
          "--ops-listen", "${NOMAD_IP_ops}:${NOMAD_PORT_ops}",
        ]
      }

      resources {
        cpu    = 500
        memory = 512
      }

      service {
        name     = "strait-coordinator"
        port     = "ops"
        provider = "nomad"

        check {
          name     = "alive"
          type     = "http"
          path     = "/healthz"
          interval = "10s"
          timeout  = "2s"

          check_restart {
            limit = 6
            grace = "60s"
          }
        }

        check {
          name     = "ready"
          type     = "http"
          path     = "/readyz"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }
  }

  group "worker" {
    count = var.workers

    network {
      port "ops" {}
      port "data" {}
    }

    restart {
      attempts = 10
      interval = "5m"
      delay    = "2s"
      mode     = "delay"
    }

    # A worker that leaves hands its work over: one at a time, and the next when this one is ready.
    update {
      max_parallel     = 1
      health_check     = "checks"
      min_healthy_time = "10s"
      healthy_deadline = "5m"
    }

    task "worker" {
      driver       = "raw_exec"
      kill_signal  = "SIGTERM"
      kill_timeout = "60s"

      config {
        command = var.stctl
        args = [
          "serve", "worker",
          "--name", "w${NOMAD_ALLOC_INDEX}",
          "--etcd-endpoints", "${var.etcd}",
          "--checkpoint-dir", "${var.checkpoints}",
          "--slots", "${var.slots}",
          "--data-dir", "${NOMAD_ALLOC_DIR}/data/worker",
          "--ops-listen", "${NOMAD_IP_ops}:${NOMAD_PORT_ops}",
          "--data-listen", "${NOMAD_IP_data}:${NOMAD_PORT_data}",
        ]
      }

      resources {
        cpu    = 2000
        memory = 2048
      }

      service {
        name     = "strait-worker"
        port     = "ops"
        provider = "nomad"

        check {
          name     = "alive"
          type     = "http"
          path     = "/healthz"
          interval = "10s"
          timeout  = "2s"

          check_restart {
            limit = 6
            grace = "60s"
          }
        }

        check {
          name     = "ready"
          type     = "http"
          path     = "/readyz"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }

    # What is left of a worker that was killed with its allocation is fenced: nothing waits for it. One that is
    # restarted in place waits until its predecessor's lease has ended.
    task "fence" {
      driver = "raw_exec"

      lifecycle {
        hook    = "poststop"
        sidecar = false
      }

      config {
        command = var.stctl
        args = [
          "worker", "fence", "w${NOMAD_ALLOC_INDEX}",
          "--etcd-endpoints", "${var.etcd}",
          "--incarnation-file", "${NOMAD_ALLOC_DIR}/data/worker/incarnation",
        ]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
