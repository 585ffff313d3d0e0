-- find.lua: one posting with all that goes with it.
-- KEYS[1] listings (hash)   KEYS[2] trash (hash)   KEYS[3] owner   KEYS[4] last_modified
-- ARGV[1] field
-- Reply: {record or nil, trashed record or nil, owner or nil, ms until the claim expires (< 0 never, 0 = within this one), last_modified or nil}
return {
  redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[2], ARGV[1]),
  redis.call('MGET', KEYS[3])[1], redis.call('PTTL', KEYS[3]), redis.call('MGET', KEYS[4])[1], -- MGET, for it takes what is no text as missing
}
