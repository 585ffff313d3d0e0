// Package publisher keeps the retained MQTT topics of the job orders as they shall be: for each scope a state index, for each
// job order its topics order/{id} and result/{id}. An MES that was away reads them and knows what it missed.
//
//	commits of job orders                        this package                                   broker
//	 joborder:changes ──── where to look ──►  1 read index and documents
//	 pubidx:{scope}   ──── what shall be ──►    publish order/{id}, result/{id} ──────────────►  PUBACK
//	 pubdone:{scope}  ◄─── what the broker ──  2 note it, take seq and content of the index
//	 pubseq:{scope}        acknowledged         publish state-index ──────────────────────────►  PUBACK
//	                                            delete topics that it does not name ──────────►  PUBACK
//	 publisher:stream-cursors ◄──────────────  3 note what is deleted, cursor, next changes
//
// In this order a reader of any index finds every topic that it names, on the way in and on the way out. What is deleted is noted
// late: if the process dies before, the next one finds it in pubdone and deletes it again. An order whose topic the broker refuses, or
// that has no readable document, stands in the index without one.
//
// It does not replay changes: it makes what the broker has equal to what the commits say it shall have (docs/adr/0002). So what a
// change was does not matter, and whatever was missed is mended by looking at everything again, which is done when the
// role is taken over, when the broker comes back, when the change stream was trimmed unread, and from time to time.
//
// Any number of processes may run it: one publishes, under a lease whose token goes into every write, the rest stand by.
//
// When the broker is away, it waits; for longer than the lease it leaves the role to a process that has one. When Redis is away,
// it tries again, and takes the role anew if the lease ended. When it dies, another process takes over within the
// lease. A message that the broker refuses is tried again with growing pauses while everything else goes on.
package publisher
