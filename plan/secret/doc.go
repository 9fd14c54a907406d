// Package secret seals texts under the keys of a fleet and opens them again.
//
//	hunter2 ──Seal──▶ sealed(k-7f3a.BASE64URL) ──Open──▶ hunter2
//
// A token may stand anywhere in a longer text, a URL above all: it has no character that HOCON, JSON, a URL's
// user-info or a query give a meaning to within quotes. Split takes a text apart into plain text, tokens and the
// ${env:NAME} and ${file:PATH} that a worker fills in.
//
// Invariants
//
//  1. AES-256-GCM with a random nonce; the format's version and the key's id are authenticated with the text, so a
//     token of another format or under another key of the same id does not open.
//  2. Neither an error nor a String method shows a text or a key.
//  3. Whatever Find calls a token is one that Seal can have written, up to its bytes: other text stays text.
//
// What is not bound, and why, is in DESIGN.md. The package is pure: the caller brings the random bytes and reads the
// files.
package secret
