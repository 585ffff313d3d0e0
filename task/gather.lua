-- gather.lua: submit one task that is collected with others of its kind, and their aggregate if it is the last.
-- KEYS[1] collecting zset   KEYS[2] what is collected   KEYS[3] stream of the aggregate   KEYS[4] delayed zset, the channel on which promoters listen
-- KEYS[5] what is known by its key, = KEYS[1] if there is none
-- ARGV[1] message   ARGV[2] collection   ARGV[3], ARGV[4] head and tail of an aggregate that begins with it   ARGV[5] its queue
-- ARGV[6] most members   ARGV[7] longest wait of the first member, ms   ARGV[8] wait after the last member, ms, "0" = that of the first alone counts
-- ARGV[9] most bytes of all members   ARGV[10] task id   ARGV[11] how long the key is known, ms   ARGV[12] name of the type
-- Reply: {"ok", entry id of the aggregate or "", when it is due in seconds or ""}
--   | {"known", id, entry id, due, queue, name of the type}: submitted before under this key
if KEYS[5] ~= KEYS[1] then
  local had = redis.call('HMGET', KEYS[5], 'id', 'entry', 'due', 'queue', 'name')
  if had[1] then return {'known', had[1], had[2], had[3], had[4] or '', had[5] or ''} end
end
if wrong(KEYS[1], 'zset') then return refuse(KEYS[1]) end
if wrong(KEYS[3], 'stream') then return refuse(KEYS[3]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local c = redis.call('HMGET', KEYS[2], 'n', 'since', 'bytes') -- refuses a key of another type, before the first write
local n, since, bytes = tonumber(c[1] or '0'), tonumber(c[2] or '0'), tonumber(c[3] or '0')
if n > 0 and bytes + #ARGV[1] > tonumber(ARGV[9]) then
  flush(KEYS[1], KEYS[2], ARGV[2], KEYS[3])
  n, bytes = 0, 0
end
if n == 0 then
  since = now
  redis.call('HSET', KEYS[2], 'since', string.format('%.0f', now), 'head', ARGV[3], 'tail', ARGV[4], 'queue', ARGV[5])
end
n = n + 1
redis.call('HSET', KEYS[2], n, ARGV[1], 'n', n, 'bytes', bytes + #ARGV[1])
local due = since + tonumber(ARGV[7])
if ARGV[8] ~= '0' then due = math.min(due, now + tonumber(ARGV[8])) end
local entry, at = '', ''
if n >= tonumber(ARGV[6]) or due <= now then
  entry = flush(KEYS[1], KEYS[2], ARGV[2], KEYS[3])
else
  at = string.format('%.3f', due / 1000)
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[1], at, ARGV[2])
  if not first or tonumber(first) > due / 1000 then redis.call('PUBLISH', KEYS[4], at) end
end
if KEYS[5] ~= KEYS[1] then
  redis.call('HSET', KEYS[5], 'id', ARGV[10], 'entry', entry, 'due', at, 'queue', ARGV[5], 'name', ARGV[12])
  redis.call('PEXPIRE', KEYS[5], ARGV[11])
end
return {'ok', entry, at}
