// Package redis opens the connection to the one Redis (or Valkey) that Takt works on.
//
// What is fit is found out by trying, not by the version text: Connect runs one script that
// uses every command Takt's scripts need and names those that are missing or denied. A cluster
// server is accepted only with a key prefix that carries a hash tag, for no script may span two
// slots. Every refusal says what to do next; no error and no log line holds a password.
//
// A command is tried once: retrying is the caller's decision, who alone knows whether a second
// run is harmless. After a restart of the server the first command on each connection may fail
// with an EOF and the next one works.
package redis
