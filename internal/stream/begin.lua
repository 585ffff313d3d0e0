-- begin.lua: count one more start of an entry that was delivered before.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream
-- ARGV[1] token under which it was delivered   ARGV[2] group   ARGV[3] consumer   ARGV[4] id   ARGV[5] number of this start
-- Reply: {"ok"} | {"lost"}: the worker is no longer itself | {"gone"}: not pending for this consumer, settled or taken
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
if #redis.call('XPENDING', KEYS[2], ARGV[2], ARGV[4], ARGV[4], 1, ARGV[3]) == 0 then return {'gone'} end
redis.call('XCLAIM', KEYS[2], ARGV[2], ARGV[3], 0, ARGV[4], 'RETRYCOUNT', ARGV[5], 'JUSTID')
return {'ok'}
