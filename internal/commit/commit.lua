-- commit.lua: apply a list of writes if every expectation holds, all or nothing.
-- KEYS     every key that a check or a write names
-- ARGV     lists; each begins with its length, and a key is its index in KEYS:
--   strings  key, wanted: "-" absent; "" absent or a string; "i" absent or what INCR can add one to; "<n" the same and at most
--            n; else the SHA-1 (hex) of the stored bytes
--   streams  key: absent or a stream
--   sets     key: absent or a set
--   types    key, type: absent or of that type
--   checks   kind, key, name, wanted
--              card    ZCARD < wanted; name unused
--              member  SISMEMBER name = wanted ("1" or "0")
--              field   HGET name = wanted: "-" absent, else "=" followed by the value
--   rights   command: each of those of the writes once
--   writes   command, key, number of arguments, arguments
-- and then "1" if the type of the key of the first write is in none of the lists: the write itself finds it out.
-- Reply    {"ok", id of each XADD ...} | {"conflict", key} | {"type", key, wanted type, found type}
-- Redis does not roll back what a failing script wrote, so everything that can fail is checked before the second write: the
-- types of many keys by one command where there is one (ADR 0027), and this user's right to each command.
local at = 0
local function argument()
  at = at + 1
  return ARGV[at]
end
local function key() return KEYS[tonumber(argument())] end
local function found(k) return redis.call('TYPE', k).ok end
local function refused(result) return type(result) == 'table' and result.err end
-- The reply after a command on k failed: another type, or else the error itself, a missing right say.
local function wrong(k, want, failure)
  local t = found(k)
  if t == 'none' or t == want then return failure end
  return {'type', k, want, t}
end
local function integer(text)
  -- no leading zero, 18 characters
  return #text < 19 and (text == '0' or string.match(text, '^%-?[1-9]%d*$'))
end

local n = tonumber(argument())
local absent = {}
for from = 1, n, 1000 do
  local names, wanted = {}, {}
  for i = 1, math.min(1000, n - from + 1) do
    names[i], wanted[i] = key(), argument()
  end
  local values = redis.call('MGET', unpack(names))
  for i, name in ipairs(names) do
    local value, want = values[i], wanted[i]
    if not value then
      if #want == 40 then
        local t = found(name)
        if t ~= 'none' then return {'type', name, 'string', t} end
        return {'conflict', name}
      end
      absent[#absent + 1] = name
    elseif want == 'i' or string.sub(want, 1, 1) == '<' then
      if not integer(value) then return {'type', name, 'integer', 'string'} end
      if want ~= 'i' and tonumber(value) > tonumber(string.sub(want, 2)) then return {'conflict', name} end
    elseif want ~= '' and redis.sha1hex(value) ~= want then -- "-" is the hash of nothing
      return {'conflict', name}
    end
  end
end
for from = 1, #absent, 1000 do -- no string: nothing, or another type
  if redis.call('EXISTS', unpack(absent, from, math.min(from + 999, #absent))) > 0 then
    for _, name in ipairs(absent) do
      local t = found(name)
      if t ~= 'none' then return {'type', name, 'string', t} end
    end
  end
end

-- Asks one command about the types of all keys, or one for each.
local function typed(list, want, refusing, ...)
  -- The embedded store, which has no such constant, lets these commands pass over keys of other types.
  if #list > 1 and redis.REDIS_VERSION and refusing and not refused(redis.pcall(refusing, ...)) then return end
  for _, name in ipairs(list) do
    local t = found(name)
    if t ~= 'none' and t ~= want then return {'type', name, want, t} end
  end
end
local function list()
  local names = {}
  for i = 1, tonumber(argument()) do names[i] = key() end
  return names
end

local streams = list()
local read = {'COUNT', '1', 'STREAMS', unpack(streams)}
for _ = 1, #streams do
  read[#read + 1] = '18446744073709551615-18446744073709551615' -- after all entries
end
local problem = typed(streams, 'stream', 'XREAD', unpack(read))
if problem then return problem end

local sets = list()
-- With an absent key the intersection is empty, and no member is looked at.
local names = {unpack(sets)}
names[#names + 1] = absent[1]
problem = typed(sets, 'set', absent[1] and 'SINTER', unpack(names))
if problem then return problem end

for _ = 1, tonumber(argument()) do
  local k, want = key(), argument()
  local t = found(k)
  if t ~= 'none' and t ~= want then return {'type', k, want, t} end
end

for _ = 1, tonumber(argument()) do
  local kind, k, name, wanted = argument(), key(), argument(), argument()
  local holds
  if kind == 'card' then
    local card = redis.pcall('ZCARD', k)
    if refused(card) then return wrong(k, 'zset', card) end
    holds = card < tonumber(wanted)
  elseif kind == 'member' then
    local member = redis.pcall('SISMEMBER', k, name)
    if refused(member) then return wrong(k, 'set', member) end
    holds = member == tonumber(wanted)
  else
    local value = redis.pcall('HGET', k, name)
    if refused(value) then return wrong(k, 'hash', value) end
    holds = (value and '=' .. value or '-') == wanted
  end
  if not holds then return {'conflict', k} end
end

for _ = 1, tonumber(argument()) do
  local no = denied(argument(), KEYS[1])
  if no then return no end
end

-- Nothing above this line writes, and nothing below can fail but the first write.
local types = {Z = 'zset', S = 'set', H = 'hash', X = 'stream'}
local writes = tonumber(argument())
local unproven = ARGV[#ARGV] == '1'
local reply = {'ok'}
for i = 1, writes do
  local command, k, count = argument(), key(), tonumber(argument())
  local result
  if i == 1 and unproven then
    result = redis.pcall(command, k, unpack(ARGV, at + 1, at + count))
    if refused(result) then return wrong(k, types[string.sub(command, 1, 1)], result) end
  else
    result = redis.call(command, k, unpack(ARGV, at + 1, at + count))
  end
  at = at + count
  if command == 'XADD' then reply[#reply + 1] = result end
end
return reply
