// Package console is the web console: what job orders do and wait for, in pages that change as the orders do, and the job methods as buttons.
//
//	browser ◄── page ──────── Console ◄── book: all orders in memory, one XREAD for all browsers ── Redis
//	browser ◄── /events ─────    │   ◄── tail: one XREAD per order that is looked at ────────────── Redis
//	browser ─── POST ───────────►│ ──► mes.Client ── job method as an MES sends it ── broker ── takt serve
//
// It reads Redis and sends job methods over the broker; it writes what users do into the audit, and what pages of boards and workflows change goes through the packages of these. It starts without either, says on every page which of them does not answer, and shows
// the list of orders as it was last read.
//
// Everything is in the binary: templates, one style sheet and one script. Every page can be read and used without the script, which replaces the parts of a page that
// changed. On this machine each visitor is an operator; with a file of users each logs in, and other machines reach it by TLS and with users alone.
package console
