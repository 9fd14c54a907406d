// Package formattest makes tables and rows for tests of formats and of the connectors that use them.
package formattest
