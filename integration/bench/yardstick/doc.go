// Package yardstick has the bare loops that the engine's speed is compared with. It uses nothing of the engine.
//
//	one goroutine: columns ─▶ encode ─▶ s2 ─▶ CRC-32C ─▶ write ══ loopback TCP ══▶ another: read ─▶ verify ─▶ decode
//
// Buffers are made once and reused; nothing is bounded, fenced, merged or cancelled. What an engine must do beyond
// this loop is what the ratio shows.
package yardstick
