-- retire.lua: take a scope without job orders out of the active ones.
-- KEYS[1]  lease of the publisher   KEYS[2]  active-scopes   KEYS[3]  publisher:idle   KEYS[4]  joborder:list:{scope}
-- KEYS[5]  pubidx:{scope}           KEYS[6]  pubdone:{scope} KEYS[7]  publisher:dirty
-- ARGV[1]  token of the lease       ARGV[2]  scope
-- Reply    "retired" | "used": it has job orders, and is not to be retired any more | "later": its topics are not settled yet
--          | "lost" the lease is another process'; in this case nothing was written
-- pubseq:{scope} stays, so that a later order there gets a higher seq than any index before.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lost' end
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('ZREM', KEYS[3], ARGV[2])
  return 'used'
end
if redis.call('EXISTS', KEYS[5], KEYS[6]) > 0 or redis.call('SISMEMBER', KEYS[7], ARGV[2]) == 1 then return 'later' end
redis.call('SREM', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
return 'retired'
