//go:build failpoint

package all

import _ "strait/worker/connector/tattle" // Tattle, for tests
