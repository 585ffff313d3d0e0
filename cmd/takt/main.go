// Command takt coordinates work that must not be lost. See `takt --help`.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
