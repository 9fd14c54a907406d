// Package all links the connectors of this build.
package all

import (
	_ "strait/worker/connector/fake" // FakeSource
)
