// Package telemetry is how a process shows what it does: a log that holds no secrets, counters for Prometheus, and a small
// HTTP server for them and for the questions "alive?" and "ready?".
package telemetry
