-- finish.lua: end the runs of a batch of tasks of one stream, if the worker that ran them is still itself.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream   KEYS[3] delayed zset   KEYS[4] awaited hash   KEYS[5] counters
-- KEYS[6] dead letters   KEYS[7] index of the dead letters   KEYS[8...] the result of each task that has one
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3] name before a channel of those who await
-- ARGV[4] number of entries, 1 to 256, then their ids in the order of the stream; then lists, each after its number of items:
--   counters: field, by how much
--   results: entry id, task id, time to live in ms, result
--   to run again: entry id, delay in ms, message
--   dead: entry id, task id, dead letter ("" = none is kept)
-- Reply: {"ok", entries that had not ended before} | {"lost"}: nothing done
-- An entry ends once: whoever comes second finds it gone, and what it brings is dropped.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
local n = tonumber(ARGV[4])
local at = 5 + n
local counters = at
local results = counters + 1 + 2 * tonumber(ARGV[counters])
local again = results + 1 + 4 * tonumber(ARGV[results])
local dead = again + 1 + 3 * tonumber(ARGV[again])
local function refuse(key, want)
  local t = redis.call('TYPE', key).ok
  if t ~= 'none' and t ~= want then return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. t) end
end
local wrong = tonumber(ARGV[again]) > 0 and refuse(KEYS[3], 'zset') or tonumber(ARGV[dead]) > 0 and (refuse(KEYS[6], 'hash') or refuse(KEYS[7], 'zset'))
  or tonumber(ARGV[counters]) > 0 and refuse(KEYS[5], 'hash') or tonumber(ARGV[results]) > 0 and refuse(KEYS[4], 'hash')
if wrong then return wrong end
local stream = KEYS[2]
local acked = redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 5, 4 + n))
local function before(a, b)
  local ams, anumber = string.match(a, '(%d+)-(%d+)')
  local bms, bnumber = string.match(b, '(%d+)-(%d+)')
  ams, bms = tonumber(ams), tonumber(bms)
  return ams < bms or ams == bms and tonumber(anumber) < tonumber(bnumber)
end
local function ours(id)
  return acked == n or #redis.call('XRANGE', KEYS[2], id, id) > 0
end
if tonumber(ARGV[results]) > 0 then
  local awaited = redis.call('EXISTS', KEYS[4]) == 1
  for i = 0, tonumber(ARGV[results]) - 1 do
    local p = results + 1 + 4 * i
    if ours(ARGV[p]) then
      redis.call('SET', KEYS[8 + i], ARGV[p + 3], 'PX', ARGV[p + 2])
      local who = awaited and redis.call('HGET', KEYS[4], ARGV[p + 1])
      if who then
        redis.call('HDEL', KEYS[4], ARGV[p + 1])
        for name in string.gmatch(who, '[^,]+') do redis.call('PUBLISH', ARGV[3] .. name, ARGV[p + 1]) end
      end
    end
  end
end
if tonumber(ARGV[again]) > 0 or tonumber(ARGV[dead]) > 0 then
  local t = redis.call('TIME')
  local now = t[1] + t[2] / 1000000
  local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
  first = first and tonumber(first)
  for p = again + 1, dead - 1, 3 do
    if ours(ARGV[p]) then
      local due = now + tonumber(ARGV[p + 1]) / 1000
      redis.call('ZADD', KEYS[3], string.format('%.3f', due), ARGV[p + 2])
      if not first or due < first then
        first = due
        redis.call('PUBLISH', KEYS[3], string.format('%.3f', due))
      end
    end
  end
  for p = dead + 1, dead + 3 * tonumber(ARGV[dead]), 3 do
    if ARGV[p + 2] ~= '' and ours(ARGV[p]) then
      redis.call('HSET', KEYS[6], ARGV[p + 1], ARGV[p + 2])
      redis.call('ZADD', KEYS[7], string.format('%.0f', now * 1000), ARGV[p + 1])
    end
  end
end
if acked > 0 then
  for p = counters + 1, results - 1, 2 do redis.call('HINCRBY', KEYS[5], ARGV[p], ARGV[p + 1]) end
end
-- Where they are the oldest of the stream, as they are unless another worker or a long task is behind, all before the first that somebody still has
-- are deleted as one: half the work of one by one. Only what is between the batch's own first and last goes so.
local from, last = 5, 4 + n
if n >= 64 and acked == n then
  local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
  if first and first[1] == ARGV[from] then
    local pending = redis.call('XPENDING', KEYS[2], ARGV[2])[2]
    local upto = pending and before(pending, ARGV[last]) and pending or ARGV[last]
    redis.call('XTRIM', KEYS[2], 'MINID', '=', upto)
    local high = last
    while from < high do
      local middle = math.floor((from + high) / 2)
      if before(ARGV[middle], upto) then from = middle + 1 else high = middle end
    end
  end
end
redis.call('XDEL', KEYS[2], unpack(ARGV, from, last))
return {'ok', acked}
