-- commit.lua: apply a list of writes if every expectation holds, all or nothing.
-- KEYS     every key that a check or a write names
-- ARGV[1]  numbers, a byte each. Lists; each begins with its length, and a key is its position in KEYS:
--   strings  key, what is expected there:
--              0 nothing
--              1 nothing or a string
--              2 nothing or what INCR can add one to
--              3 the bytes in the next word
--              4 bytes whose SHA-1 (hex) is the next word
--   streams  key: absent or a stream
--   sets     key: absent or a set
--   sorted   key: absent or a sorted set
--   hashes   key: absent or a hash
--   checks   kind, key; two words, a name and what is wanted:
--              1 ZCARD is below it; the name is unused
--              2 SISMEMBER name is it ("1" or "0")
--              3 HGET name is it: "-" absent, else "=" followed by the value
--   rights   none; one word, a command of the writes, each once
--   writes   position of the command in rights, key, number of arguments; so many words. 128 is added to the position if the write may
--            fail alone: nothing depends on it, and the type of its key is not known
-- and then 1 if the type of the key of the first write is in none of the lists: the write itself finds it out.
-- ARGV[2]  their high bytes, "" if all are 0
-- ARGV[3]  and all that follow: the words, in the order in which they are used
-- Reply    {"ok", id of each XADD ("" = it failed alone) ...} | {"conflict", key} | {"type", key, wanted type, found type}
-- Redis does not roll back what a failing script wrote, so everything that can fail is checked before the second write: the
-- types of strings and of sets by one command each (ADR 0027), and this user's right to each command.
-- denied is the error of a user who may not run a command on a key, nil if the user may. It runs nothing. The server has asked for the right to all of KEYS before the
-- script began, so one key for each command is enough. A server without this function (before Redis 7.0, the embedded store) is not asked.
local allows = redis.acl_check_cmd
local function denied(command, key)
  if not allows or allows(command, key) then return nil end
  return redis.error_reply('NOPERM this user may not run ' .. command .. ' on ' .. key .. ', nothing was done')
end
local KEYS, ARGV, call, pcall = KEYS, ARGV, redis.call, redis.pcall
local function bytes(text)
  if #text < 1000 then return {string.byte(text, 1, -1)} end
  local all = {}
  for from = 1, #text, 1000 do
    for i, byte in ipairs({string.byte(text, from, from + 999)}) do all[from + i - 1] = byte end
  end
  return all
end
local numbers = bytes(ARGV[1])
for i, high in ipairs(bytes(ARGV[2])) do numbers[i] = numbers[i] + 256 * high end
local at, word = 1, 2 -- the next number, the last word used

local function found(k) return call('TYPE', k).ok end
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

local n = numbers[at]
at = at + 1
local absent = {}
for from = 1, n, 1000 do
  local some, names = math.min(1000, n - from + 1), {}
  for i = 1, some do names[i] = KEYS[numbers[at + 2 * i - 2]] end
  local values = call('MGET', unpack(names))
  for i = 1, some do
    local value, name, kind, want = values[i], names[i], numbers[at + 1], nil
    at = at + 2
    if kind > 2 then
      word = word + 1
      want = ARGV[word]
    end
    if not value then
      if kind > 2 then
        local t = found(name)
        if t ~= 'none' then return {'type', name, 'string', t} end
        return {'conflict', name}
      end
      absent[#absent + 1] = name
    elseif kind == 3 then
      if value ~= want then return {'conflict', name} end
    elseif kind == 4 then
      if redis.sha1hex(value) ~= want then return {'conflict', name} end
    elseif kind == 0 then
      return {'conflict', name}
    elseif kind > 1 then
      if not integer(value) then return {'type', name, 'integer', 'string'} end
    end
  end
end
for from = 1, #absent, 1000 do -- no string: nothing, or another type
  if call('EXISTS', unpack(absent, from, math.min(from + 999, #absent))) > 0 then
    for _, name in ipairs(absent) do
      local t = found(name)
      if t ~= 'none' then return {'type', name, 'string', t} end
    end
  end
end

for _, want in ipairs({'stream', 'set', 'zset', 'hash'}) do
  local names = {}
  for i = 1, numbers[at] do names[i] = KEYS[numbers[at + i]] end
  at = at + #names + 1
  local proven = false
  -- The embedded store, which has no such constant, lets SINTER pass over keys of other types.
  if want == 'set' and #names > 1 and redis.REDIS_VERSION then
    names[#names + 1] = absent[1] -- with an absent key the intersection is empty, and no member is looked at
    proven = absent[1] and not refused(pcall('SINTER', unpack(names)))
  end
  if not proven then
    for _, name in ipairs(names) do
      local t = found(name)
      if t ~= 'none' and t ~= want then return {'type', name, want, t} end
    end
  end
end

n = numbers[at]
at = at + 1
for _ = 1, n do
  local kind, k, name, wanted = numbers[at], KEYS[numbers[at + 1]], ARGV[word + 1], ARGV[word + 2]
  at, word = at + 2, word + 2
  local holds
  if kind == 1 then
    local card = pcall('ZCARD', k)
    if refused(card) then return wrong(k, 'zset', card) end
    holds = card < tonumber(wanted)
  elseif kind == 2 then
    local member = pcall('SISMEMBER', k, name)
    if refused(member) then return wrong(k, 'set', member) end
    holds = member == tonumber(wanted)
  else
    local value = pcall('HGET', k, name)
    if refused(value) then return wrong(k, 'hash', value) end
    holds = (value and '=' .. value or '-') == wanted
  end
  if not holds then return {'conflict', k} end
end

local commands = {}
for i = 1, numbers[at] do
  local command = ARGV[word + i]
  local no = denied(command, KEYS[1])
  if no then return no end
  commands[i] = command
end
at, word = at + 1, word + #commands

-- Nothing above this line writes, and nothing below can fail but the first write, and those that may fail alone.
local types = {Z = 'zset', S = 'set', H = 'hash', X = 'stream'}
local unproven = numbers[#numbers] == 1
local reply = {'ok'}
n = numbers[at]
for i = 1, n do
  local position = numbers[at + 1]
  local alone = position > 128
  if alone then position = position - 128 end
  local command, k, last = commands[position], KEYS[numbers[at + 2]], word + numbers[at + 3]
  local result
  if i == 1 and unproven then
    result = pcall(command, k, unpack(ARGV, word + 1, last))
    if refused(result) then return wrong(k, types[string.sub(command, 1, 1)], result) end
  elseif alone then
    result = pcall(command, k, unpack(ARGV, word + 1, last))
    if refused(result) then result = '' end
  else
    result = call(command, k, unpack(ARGV, word + 1, last))
  end
  at, word = at + 3, last
  if command == 'XADD' then reply[#reply + 1] = result end
end
return reply
