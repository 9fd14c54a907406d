// Command stctl runs SeaTunnel job files on Strait: in this process, or on a fleet through etcd.
package main

import (
	"os"

	"strait/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
