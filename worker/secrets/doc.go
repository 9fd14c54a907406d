// Package secrets keeps the secrets of an attempt out of everything a worker says.
//
//	plugin's error, log line ──Scrubber──▶ the same with ‹secret› in the place of values
//
// The worker opens sealed options and fills in ${env:NAME} and ${file:PATH} (plan/seal) right before it decodes the
// options of a plugin; each value goes into the Scrubber of the attempt. Drivers put passwords and URLs into error
// texts, so failure messages, statuses and the log of the attempt pass through it. Values under four characters are
// not looked for: they stand everywhere by chance.
//
// The coordinator uses the same where it asks a source for its tables.
package secrets
