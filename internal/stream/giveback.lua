-- giveback.lua: give entries that were never begun to a consumer without a heartbeat, from whom every worker takes over.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3] consumer   ARGV[4] consumer without a heartbeat
-- ARGV[5...] for each entry: id, starts so far
-- Reply: {"ok"} (those that are not pending for this consumer any more are left alone) | {"lost"}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
for i = 5, #ARGV, 2 do
  if #redis.call('XPENDING', KEYS[2], ARGV[2], ARGV[i], ARGV[i], 1, ARGV[3]) > 0 then
    redis.call('XCLAIM', KEYS[2], ARGV[2], ARGV[4], 0, ARGV[i], 'RETRYCOUNT', ARGV[i + 1], 'JUSTID')
  end
end
return {'ok'}
