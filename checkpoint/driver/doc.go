// Package driver is the checkpoint loop of one pipeline on the leader, as a Step function.
//
//	facts at one revision ─▶ Step ─▶ Word      the control word, rewritten (with Point in the same transaction)
//	                          │      Point     the checkpoints key to create: the commit point
//	                          │      Publish   store this manifest, then step again with the answer
//	                          │      Restart   the attempt cannot go on
//	                          └      Wake      look again then
//
// Several decisions of protocol that may follow each other at once become one rewrite of the word: a complete
// checkpoint without commits is committed, and a final one stops the pipeline, in one transaction.
//
// State is what this leader knows beyond the keys; a new leader begins with the zero value and publishes again.
package driver
