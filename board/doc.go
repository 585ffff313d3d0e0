// Package board is a job board: work is posted, claimed by one owner at a time, handed over when the owner dies, and consumed. Programs
// with Python's OpenStack TaskFlow (2.8 to 6) and Go programs share one board, on Redis or on ZooKeeper.
//
//	b, err := board.Open(ctx, "redis://127.0.0.1:6379?namespace=taskflow")
//	p, err := b.Post(ctx, board.Draft{Name: "resize", Details: map[string]any{"image": "cat.png"}})
//	c, err := b.ClaimNext(ctx, "worker-1", board.ClaimOptions{})
//	work(c.Context(), c.Posting())
//	err = c.Consume(ctx)
//
// States follow from which records exist; nothing else is stored:
//
//	         claim                consume
//	UNCLAIMED ----> CLAIMED ----------------> COMPLETE (gone)
//	    ^              |        trash
//	    |              +--------------------> TRASHED (kept aside; COMPLETE to TaskFlow)
//	    +--------------+
//	 abandon, expiry, lost session
//
// A claim of Takt expires unless it is kept alive, which it is until it is finished, and its owner's text is unique, so that nobody else
// finishes it by accident. Its context ends when the claim is lost or may be; a stale owner is refused by the server.
//
// When Redis or ZooKeeper is away, Post, Consume, Abandon and Trash try again until their context ends, without finishing twice, and without posting twice but in one case on ZooKeeper (see Post); claims
// whose time passes meanwhile are lost. When a process dies, its claims end after their time to live on Redis (30 s by default), and with the session on ZooKeeper.
//
// Python programs stay as they are: they claim without expiry, compare owners by name only, delete postings that they cannot read, and spin while everything is claimed.
// See docs/concepts/boards.md.
package board
