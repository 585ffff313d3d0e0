-- complete.lua: the checkpoint of a workflow task: history, events, activities, timers and messages, all or nothing.
-- KEYS[1] heartbeat of the worker   KEYS[2] run:{id}   KEYS[3] document   KEYS[4] history   KEYS[5] inbox
-- ARGV[2] token   ARGV[3] consumer   ARGV[4] entry   ARGV[5] id   ARGV[6] execution   ARGV[7] queue   ARGV[8] cursor: last event handed out
-- ARGV[9] state   ARGV[10] document   ARGV[11] outcome   ARGV[12] number of events handed out   ARGV[13] ms to keep it then, 0 = for ever   ARGV[14] 1 = remove it then
-- ARGV[15] gate, "" = none   ARGV[16] shard of the gate, "" = this   ARGV[17] this shard, as others call it
-- Then lists, each after its number of items:
--   history: event
--   activities: ref, queue, event
--   timers: ref, ms from now, event
--   timers that are not to fire: ref
--   messages: shard ("" = this), number of words, words of act
--   queues to fetch from: see fetch
-- Reply: {"ok", tasks fetched...} | {"lost"}: the task is not this worker's, or Redis has lost some of its events; nothing was done
local active = ARGV[9] == 'active'
local at = 18 -- where the next list begins
local n = tonumber(ARGV[at])
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local id, x, queue = ARGV[5], ARGV[6], ARGV[7]
local r = call('HMGET', KEYS[2], 'x', 'e')
if r[1] ~= x or r[2] ~= ARGV[4] then return {'lost'} end
local stream = B .. 'tasks:' .. queue
-- Events that are gone come again, for what they were of is undone, too: a failover or an older copy of the data. What follows from them must not be there before them.
local came = tonumber(ARGV[12])
local inbox = call('XRANGE', KEYS[5], '-', '+', 'COUNT', came + 1)
if #inbox < came or inbox[came][1] ~= ARGV[8] then return {'lost'} end
local left = #inbox > came
local now = not active and clock()
local expires = now and ARGV[13] ~= '0' and now + tonumber(ARGV[13])
-- The first write is one that a full server refuses, and that finds a wrong type of what is the instance's own.
for from = at + 1, at + n, 1000 do call('RPUSH', KEYS[4], unpack(ARGV, from, math.min(from + 999, at + n))) end
local last = n > 0 and ARGV[at + n] or ''
if expires then call('SET', KEYS[3], ARGV[10], 'PXAT', expires) else call('SET', KEYS[3], ARGV[10]) end
at = at + 1 + n
local function list(width, f)
  local n = tonumber(ARGV[at])
  for i = 0, n - 1 do f(at + 1 + width * i) end
  at = at + 1 + width * n
end
if left then
  for i = 1, came do call('XDEL', KEYS[5], inbox[i][1]) end
else call('DEL', KEYS[5]) end
call('XACK', stream, GROUP, ARGV[4])
call('XDEL', stream, ARGV[4])
local fields = {'e', ''}
local function set(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
list(3, function(p)
  if not active then return end
  local q = ARGV[p + 1]
  call('SADD', B .. 'queues', 'activities:' .. q)
  local entry = try('activities', q, 'i', id, 'x', x, 'r', ARGV[p], 'd', ARGV[p + 2]) or '0-1' -- which is in no queue: as if somebody had deleted it
  if call('HSETNX', KEYS[2], 'a:' .. ARGV[p], entry .. ' ' .. q) == 0 then pull('activities', q, entry) end -- one of that ref is open
end)
local first
if ARGV[at] ~= '0' then now = tick() end
list(3, function(p)
  if not active then return end
  local due = now + tonumber(ARGV[p + 1])
  set('t:' .. ARGV[p], ARGV[p + 2])
  call('ZADD', B .. 'timers', due, ARGV[p] .. ':' .. x .. ':' .. id)
  if not first or due < first then first = due end
end)
if active then
  for from = 1, #fields, 1000 do call('HSET', KEYS[2], unpack(fields, from, math.min(from + 999, #fields))) end
end
list(1, function(p)
  call('HDEL', KEYS[2], 't:' .. ARGV[p])
  call('ZREM', B .. 'timers', ARGV[p] .. ':' .. x .. ':' .. id)
end)
local next = first and call('ZRANGE', B .. 'timers', 0, 0, 'WITHSCORES')[2]
if next and tonumber(next) >= first then call('PUBLISH', B .. 'timers', first) end
if active then
  if left then wake(id) end
else
  if last == '' then last = call('LINDEX', KEYS[4], -1) or '' end
  finish(id, x, ARGV[10], last, ARGV[9], ARGV[11], now, expires, ARGV[14] == '1', ARGV[15], not left)
end
for _ = 1, tonumber(ARGV[at]) do
  local words = tonumber(ARGV[at + 2])
  send(ARGV[at + 1], unpack(ARGV, at + 3, at + 2 + words))
  at = at + 2 + words
end
if not active and ARGV[15] ~= '' and not (heir and heir.passed) then send(ARGV[16], 'release', ARGV[15], ARGV[17], id, x) end
return {'ok', unpack(fetch(at + 1, ARGV[3]))}
