-- complete.lua: the checkpoint of a workflow task: history, events, activities, timers and messages, all or nothing.
-- KEYS[1] heartbeat of the worker   KEYS[2] run:{id}   KEYS[3] document   KEYS[4] history   KEYS[5] inbox
-- ARGV[2] token   ARGV[3] consumer   ARGV[4] entry   ARGV[5] id   ARGV[6] execution   ARGV[7] queue   ARGV[8] cursor: last event handed out
-- ARGV[9] state   ARGV[10] document   ARGV[11] outcome   ARGV[12] ended, Unix ms   ARGV[13] ms to keep it then, 0 = for ever   ARGV[14] 1 = remove it then
-- ARGV[15] gate, "" = none   ARGV[16] shard of the gate, "" = this   ARGV[17] this shard, as others call it
-- Then lists, each after its number of items:
--   history: event
--   activities: ref, queue, event
--   timers: ref, ms from now, event
--   timers that are not to fire: ref
--   messages: shard ("" = this), number of words, words of act
--   queues to fetch from: see fetch
-- Reply: {"ok", tasks fetched...} | {"lost"}: the task is not this worker's, nothing was done
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local id, x, queue = ARGV[5], ARGV[6], ARGV[7]
local r = call('HMGET', KEYS[2], 'x', 'e')
if r[1] ~= x or r[2] ~= ARGV[4] then return {'lost'} end
local stream = B .. 'tasks:' .. queue
-- Types are looked at before anything is written; the first write is one that a full server refuses.
call('LLEN', KEYS[4]) call('XLEN', KEYS[5]) call('XLEN', stream) call('ZCARD', B .. 'timers') call('XLEN', B .. 'out')
call('SET', KEYS[3], ARGV[10])
local at = 18
local function list(width, f)
  local n = tonumber(ARGV[at])
  for i = 0, n - 1 do f(at + 1 + width * i) end
  at = at + 1 + width * n
  return n
end
local last = ''
list(1, function(p) call('RPUSH', KEYS[4], ARGV[p]) last = ARGV[p] end)
for _, m in ipairs(call('XRANGE', KEYS[5], '-', ARGV[8])) do call('XDEL', KEYS[5], m[1]) end
call('XACK', stream, GROUP, ARGV[4])
call('XDEL', stream, ARGV[4])
local active = ARGV[9] == 'active'
list(3, function(p)
  if not active then return end
  local q = ARGV[p + 1]
  call('SADD', B .. 'queues', 'activities:' .. q)
  local entry = push('activities', q, 'i', id, 'x', x, 'r', ARGV[p], 'd', ARGV[p + 2])
  call('HSET', KEYS[2], 'a:' .. ARGV[p], entry .. ' ' .. q)
end)
local now, first = clock(), nil
list(3, function(p)
  if not active then return end
  local due = now + tonumber(ARGV[p + 1])
  call('HSET', KEYS[2], 't:' .. ARGV[p], ARGV[p + 2])
  call('ZADD', B .. 'timers', due, ARGV[p] .. ':' .. x .. ':' .. id)
  if not first or due < first then first = due end
end)
list(1, function(p)
  call('HDEL', KEYS[2], 't:' .. ARGV[p])
  call('ZREM', B .. 'timers', ARGV[p] .. ':' .. x .. ':' .. id)
end)
if first and tonumber(call('ZRANGE', B .. 'timers', 0, 0, 'WITHSCORES')[2]) >= first then call('PUBLISH', B .. 'timers', first) end
if active then
  call('HSET', KEYS[2], 'e', '')
  if call('XLEN', KEYS[5]) > 0 then wake(id) else call('DEL', KEYS[5]) end
else
  finish(id, x, ARGV[10], last, ARGV[9], ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14] == '1')
  if ARGV[15] ~= '' then send(ARGV[16], 'release', ARGV[15], ARGV[17], id, x) end
end
for _ = 1, tonumber(ARGV[at]) do
  local words = tonumber(ARGV[at + 2])
  send(ARGV[at + 1], unpack(ARGV, at + 3, at + 2 + words))
  at = at + 2 + words
end
return {'ok', unpack(fetch(at + 1, ARGV[3]))}
