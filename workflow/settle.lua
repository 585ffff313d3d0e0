-- settle.lua: record the result of an activity, once.
-- KEYS[1] heartbeat of the worker   KEYS[2] run:{id}
-- ARGV[2] token   ARGV[3] consumer   ARGV[4] entry   ARGV[5] id   ARGV[6] execution   ARGV[7] queue   ARGV[8] ref   ARGV[9] event
-- ARGV[10...] queues to fetch from: see fetch
-- Reply: {"ok", tasks fetched...} | {"lost"}: not this worker's | {"gone"}: nobody waits for it any more, or it was recorded before; the entry is gone, too
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
if call('HGET', KEYS[2], 'a:' .. ARGV[8]) ~= ARGV[4] .. ' ' .. ARGV[7] or give(ARGV[5], ARGV[6], ARGV[9], '0') ~= 'ok' then
  pull('activities', ARGV[7], ARGV[4])
  return {'gone'}
end
call('HDEL', KEYS[2], 'a:' .. ARGV[8])
pull('activities', ARGV[7], ARGV[4])
return {'ok', unpack(fetch(10, ARGV[3]))}
