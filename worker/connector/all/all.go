package all

import (
	_ "strait/worker/connector/assert"    // Assert
	_ "strait/worker/connector/blackhole" // Blackhole
	_ "strait/worker/connector/console"   // Console
	_ "strait/worker/connector/fake"      // FakeSource
	_ "strait/worker/connector/file"      // LocalFile
	_ "strait/worker/connector/inmemory"  // InMemory
)
