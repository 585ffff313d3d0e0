-- commit.lua: apply a list of writes if every expectation holds, all or nothing.
-- KEYS     every key that a check or a write names
-- ARGV[1]  number of checks, then per check:  kind, index in KEYS, name, wanted
--            doc     GET = wanted: "-" absent, else the SHA-1 (hex) of the stored bytes; name unused
--            card    ZCARD < wanted; name unused
--            member  SISMEMBER name = wanted ("1" or "0")
--            field   HGET name = wanted: "-" absent, else "=" followed by the value
-- then     number of writes, then per write:  command, index in KEYS, number of arguments, arguments
-- Reply    {"ok", id of each XADD ...} | {"conflict", key} | {"type", key, wanted type, found type}
-- Redis does not roll back what a failing script wrote, so everything that can fail is checked first. An absent key
-- takes the type of the first write to it, and a deleted one that of the next.
local types = {
  SET = 'string', INCR = 'string', ZADD = 'zset', ZREM = 'zset', SADD = 'set', SREM = 'set',
  HSET = 'hash', HDEL = 'hash', XADD = 'stream', XACK = 'stream', XDEL = 'stream',
}
local reads = {doc = 'string', card = 'zset', member = 'set', field = 'hash'}
local found = {}
local function kind(key)
  if not found[key] then found[key] = redis.call('TYPE', key).ok end
  return found[key]
end
-- What INCR takes and can add one to: no leading zero, 18 characters; or nothing.
local function integer(key)
  local text = redis.call('GET', key)
  return not text or #text < 19 and (text == '0' or string.match(text, '^%-?[1-9]%d*$'))
end

local at = 2
for _ = 1, tonumber(ARGV[1]) do
  local check, key, name, wanted = ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 3]
  at = at + 4
  local t = kind(key)
  if t ~= 'none' and t ~= reads[check] then return {'type', key, reads[check], t} end
  local holds
  if check == 'doc' then
    if wanted == '-' then
      holds = t == 'none'
    else
      holds = t == 'string' and redis.sha1hex(redis.call('GET', key)) == wanted
    end
  elseif check == 'card' then
    holds = redis.call('ZCARD', key) < tonumber(wanted)
  elseif check == 'member' then
    holds = redis.call('SISMEMBER', key, name) == tonumber(wanted)
  else
    local value = redis.call('HGET', key, name)
    holds = (value and '=' .. value or '-') == wanted
  end
  if not holds then return {'conflict', key} end
end

local writes = tonumber(ARGV[at])
local first = at + 1
at = first
for _ = 1, writes do
  local want, key = types[ARGV[at]], KEYS[tonumber(ARGV[at + 1])]
  if want then
    local t = kind(key)
    if t ~= 'none' and t ~= want then return {'type', key, want, t} end
    if ARGV[at] == 'INCR' and t == 'string' and not integer(key) then return {'type', key, 'integer', t} end
    found[key] = want
  elseif ARGV[at] == 'DEL' then
    found[key] = 'none'
  end
  at = at + 3 + tonumber(ARGV[at + 2])
end

-- Nothing above this line writes.
local reply = {'ok'}
at = first
for _ = 1, writes do
  local count = tonumber(ARGV[at + 2])
  local result = redis.call(ARGV[at], KEYS[tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, at + 2 + count))
  if ARGV[at] == 'XADD' then reply[#reply + 1] = result end
  at = at + 3 + count
end
return reply
