-- spawn.lua: make a group if it is not there, and add a page of its children.
-- KEYS[1] state   KEYS[2] done   KEYS[3] remaining   KEYS[4] callback   KEYS[5] delayed zset   KEYS[6...] streams
-- ARGV[1] children of the group   ARGV[2] time to live, ms   ARGV[3] policy: all, done or fast
-- ARGV[4] callback record, "" = this is not the first page   ARGV[5] callback message   ARGV[6] its queue, as settle.lua takes it
-- ARGV[7] message of the task that follows a failure, "" = none   ARGV[8] its queue   ARGV[9] slot of the first child of the page
-- ARGV[10] child of an outer group whose place it takes, "" = none
-- ARGV[11] index of the callback's stream, from 1
-- ARGV[12...] children, each: index of its stream, when ("" = now, "+ms" = that long from now, "=seconds" since epoch), message
-- Reply: {"new" or "had", children added so far} | {"other", children}: there is another group of this id: of other size, or with another place | {"gone"}: it has expired since its first page
--   | {"gap", children added so far}: pages before this one are missing
-- Children are added once and in order: the state says how many were. A group without children fires at once.
local function wrong(key, want)
  local t = redis.call('TYPE', key).ok
  return t ~= 'none' and t ~= want
end
local function refuse(key) return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. redis.call('TYPE', key).ok) end
for i, want in ipairs({'hash', 'set', 'string', 'string', 'zset'}) do
  if wrong(KEYS[i], want) then return refuse(KEYS[i]) end
end
for i = 6, #KEYS do
  if wrong(KEYS[i], 'stream') then return refuse(KEYS[i]) end
end
local total, ttl, sent = ARGV[1], ARGV[2], 0
local first = tonumber(ARGV[9])
local state = redis.call('HMGET', KEYS[1], 'total', 'sent', 'ttl', 'outer')
local word = state[1] and 'had' or 'new'
if state[1] then
  if state[1] ~= total or (state[4] or '') ~= ARGV[10] then return {'other', tonumber(state[1])} end
  sent, ttl = tonumber(state[2]), state[3]
elseif ARGV[4] == '' then
  return {'gone'}
end
if first > sent then return {'gap', sent} end
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
if not state[1] then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'total', total, 'sent', 0, 'ok', 0, 'failed', 0, 'created', string.format('%.0f', now * 1000), 'ttl', ttl, 'policy', ARGV[3],
    'callback', ARGV[5], 'callback queue', ARGV[6])
  if ARGV[10] ~= '' then redis.call('HSET', KEYS[1], 'outer', ARGV[10]) end
  if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'failure', ARGV[7], 'failure queue', ARGV[8]) end
  redis.call('SET', KEYS[3], total, 'PX', ttl)
  redis.call('SET', KEYS[4], ARGV[4], 'PX', ttl)
  if total == '0' then
    redis.call('HSET', KEYS[1], 'fired', 'callback')
    redis.call('XADD', KEYS[5 + ARGV[11]], '*', 'data', ARGV[5])
  end
end
local head = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
head = head and tonumber(head)
local slot = first
for p = 12, #ARGV, 3 do
  if slot >= sent then
    local when = ARGV[p + 1]
    if when == '' then
      redis.call('XADD', KEYS[5 + ARGV[p]], '*', 'data', ARGV[p + 2])
    else
      local at = tonumber(string.sub(when, 2))
      if string.sub(when, 1, 1) == '+' then at = now + at / 1000 end
      redis.call('ZADD', KEYS[5], string.format('%.3f', at), ARGV[p + 2])
      if not head or at < head then
        head = at
        redis.call('PUBLISH', KEYS[5], string.format('%.3f', at))
      end
    end
    sent = slot + 1
  end
  slot = slot + 1
end
redis.call('HSET', KEYS[1], 'sent', sent)
for i = 1, 4 do redis.call('PEXPIRE', KEYS[i], ttl) end
return {word, sent}
