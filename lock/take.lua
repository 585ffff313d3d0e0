-- take.lua: take every lock of a list, or none. Never waits.
-- KEYS, ARGV  as common.lua says; its own: ARGV[4]  owner   ARGV[5]  waiter that gets a place in the line of the lock that
--             refuses, "" = none   ARGV[6]  ms its place is kept (or, for a writer without a place, that new readers are held off)
-- Reply  {"ok", server time in µs, per lock its mark: fence, or for rate "<cell> <µs>", or ""}
--      | {"held", number of the lock that refuses, owner or "", ms until its lease ends (-1 unknown), µs after which to try again
--         (-1 unknown), waiters in front, waiters whose turn it is now ...}
--      | {"type", key, wanted type, found type}
local owner, waiter, keep = ARGV[4], ARGV[5], tonumber(ARGV[6])

local function member(s) return (s.kind == 'read' and 'r' or 'w') .. waiter end

-- How many stand before us: all of them, if we have no place yet.
local function ahead(s)
  if not s.queued then return 0 end
  return redis.call('ZRANK', s.line, member(s)) or redis.call('ZCARD', s.line)
end

-- Whether a writer stands among the first n.
local function writer_among(s, n)
  for from = 0, n - 1, 100 do
    for _, m in ipairs(redis.call('ZRANGE', s.line, from, math.min(from + 99, n - 1))) do
      if string.sub(m, 1, 1) == 'w' then return true end
    end
  end
  return false
end

-- Why a lock cannot be had, nil if it can: {holder, left}, or {line = true} when it is kept for others.
local refuse = {}

function refuse.mutex(s, st)
  if st.holder then return {holder = st.holder, left = st.left} end
  if ahead(s) > 0 then return {line = true} end
end

function refuse.write(s, st)
  if st.writer then return {holder = st.writer, left = st.left} end
  if st.foreign > 0 then return {holder = 'reader without lease', left = st.foreign_till and st.foreign_till - ms or -1, readers = true} end
  if st.live > 0 then return {holder = st.reader, left = st.last - ms, readers = true} end
  if ahead(s) == 0 then return nil end
  -- A writer without a place in the line has that of its intent.
  local first = redis.call('ZRANGE', s.line, 0, 0, 'WITHSCORES')
  if waiter == '' and st.intent and st.intent < tonumber(first[2]) then return nil end
  return {line = true}
end

function refuse.read(s, st)
  if st.writer then return {holder = st.writer, left = st.left} end
  if st.leases[owner] then return {holder = owner, left = st.leases[owner] - ms} end
  if st.intent then
    local turn = s.queued and redis.call('ZSCORE', s.line, member(s))
    if not turn or tonumber(turn) > st.intent then return {holder = '', left = st.intent_till - ms} end
  end
  local n = ahead(s)
  if n > 0 and writer_among(s, n) then
    if st.live + st.foreign > 0 then return {holder = st.reader or 'reader without lease', left = st.live > 0 and st.last - ms or -1} end
    return {line = true}
  end
end

function refuse.conc(s, st)
  local own = s.there and redis.call('ZSCORE', s.lock, owner)
  if own and tonumber(own) > ms then return nil end
  if st.room <= 0 then return {holder = st.holder, left = st.left} end
  if ahead(s) >= st.room then return {line = true} end
end

function refuse.rate(s, st)
  local need = s.items + ahead(s) -- everybody in front wants one at least
  if need <= st.room then return nil end
  local rounds = math.floor((need - 1) / s.limit)
  local missing, after = need - rounds * s.limit - st.room, 0
  for i = st.first, st.after - 1 do
    if missing <= 0 then break end
    local at, n = cell(s, i)
    missing, after = missing - n, at + s.window - us
  end
  return {holder = '', left = -1, retry = math.max(after, 0) + rounds * s.window, line = s.items <= st.room}
end

local function join(s)
  local m = member(s)
  if not redis.call('ZSCORE', s.line, m) then
    leave(s, waiter) -- it stood there in the other mode
    local last = redis.call('ZRANGE', s.line, -1, -1, 'WITHSCORES')
    redis.call('ZADD', s.line, text(math.max(us, (tonumber(last[2]) or 0) + 1)), m)
  end
  redis.call('ZADD', s.places, text(ms + keep), m)
  local last = redis.call('ZRANGE', s.places, -1, -1, 'WITHSCORES')
  for _, key in ipairs({s.line, s.places}) do redis.call('PEXPIREAT', key, text(tonumber(last[2]) + 1)) end
  s.queued = true
end

-- Holds new readers off until a writer without a place in the line had its chance.
local function intend(s, st)
  redis.call('HSET', s.lock, 'writer_wait', text(st.intent or us), 'writer_wait_until', text(ms + keep))
  local left = redis.call('PTTL', s.lock)
  if left >= 0 and left < keep then redis.call('PEXPIRE', s.lock, keep) end
end

local function refused(all, number, st, why)
  local s = all[number]
  if st.note then redis.call('HSET', s.lock, 'foreign_since', st.note) end
  if waiter ~= '' then
    join(s)
  elseif s.kind == 'write' and why.readers then
    intend(s, st)
  end
  for i, other in ipairs(all) do -- whoever waits, waits in one line, and blocks no other
    if i ~= number and waiter ~= '' and leave(other, waiter) then call(other) end
  end
  local left, retry = why.left or -1, why.retry
  if why.line then
    call(s)
    local first = redis.call('ZRANGE', s.line, 0, 0)
    left = first[1] and math.max(tonumber(redis.call('ZSCORE', s.places, first[1])) - ms, 0) or 0
    if retry then left = -1 end
  end
  if not retry then retry = left < 0 and -1 or left * 1000 end
  publish()
  local reply = {'held', text(number), why.holder or '', text(left), text(retry), text(ahead(s))}
  for _, name in ipairs(woken) do reply[#reply + 1] = name end
  return reply
end

local take = {}

function take.mutex(s)
  redis.call('SET', s.lock, owner, 'PX', s.ttl)
  return fence(s)
end

function take.write(s)
  redis.call('DEL', s.lock) -- nobody who lives is in it
  redis.call('HSET', s.lock, 'writer_owner', owner, 'writer_until', text(ms + s.ttl))
  redis.call('PEXPIRE', s.lock, s.ttl)
  return fence(s)
end

function take.read(s, st)
  redis.call('HSET', s.lock, 'r:' .. owner, text(ms + s.ttl), 'readers', text(st.live + st.foreign + 1))
  for _, name in ipairs(st.dead) do redis.call('HDEL', s.lock, name) end
  redis.call('HDEL', s.lock, 'writer_owner', 'writer_until')
  if not st.intent then redis.call('HDEL', s.lock, 'writer_wait', 'writer_wait_until') end
  if st.note then redis.call('HSET', s.lock, 'foreign_since', st.note) end
  if st.foreign == 0 then redis.call('HDEL', s.lock, 'foreign_since') end
  if st.foreign > 0 and not st.foreign_till then
    redis.call('PERSIST', s.lock)
  else
    redis.call('PEXPIREAT', s.lock, text(math.max(st.last, ms + s.ttl, st.intent_till or 0, st.foreign > 0 and st.foreign_till or 0)))
  end
  return fence(s)
end

function take.conc(s)
  redis.call('ZADD', s.lock, text(ms + s.ttl), owner)
  redis.call('ZREMRANGEBYSCORE', s.lock, '-inf', text(ms))
  expire_slots(s)
  return ''
end

-- Above 1024 items a window has 1024 cells at most: a grant counts as made at the end of its cell, so that its quota comes back
-- up to a 1024th of the window late and never early.
function take.rate(s, st)
  local at, last, n = us, st.after - 1, 0
  if s.limit > 1024 then
    local grain = math.max(math.floor(s.window / 1024), 1)
    at = math.ceil(us / grain) * grain
  end
  if st.first < st.after then
    local newest, items = cell(s, last)
    at = math.max(at, newest)
    if at == newest then n = items end
  end
  if n == 0 then last = st.after end
  redis.call('HSET', s.lock, text(last), text(at) .. ' ' .. text(n + s.items), 'first', text(st.first), 'next', text(last + 1),
    'used', text(st.used + s.items), 'limit', text(s.limit), 'window', text(s.window))
  for _, i in ipairs(st.over) do redis.call('HDEL', s.lock, i) end
  redis.call('PEXPIRE', s.lock, text(math.ceil((at - us + s.window) / 1000) + 1))
  return text(last) .. ' ' .. text(at)
end

local all, states = locks(7), {}
for _, s in ipairs(all) do
  local bad = look(s)
  if bad then return {'type', bad[1], bad[2], bad[3]} end
end
for i, s in ipairs(all) do
  tidy(s)
  states[i] = state[s.kind](s)
  local why = refuse[s.kind](s, states[i])
  if why then return refused(all, i, states[i], why) end
end
-- Nothing above this line writes, but into the lines when refused. Below: the locks, their fences, and our place is free.
local reply = {'ok', text(us)}
for i, s in ipairs(all) do
  reply[#reply + 1] = take[s.kind](s, states[i])
  if waiter ~= '' then leave(s, waiter) end
end
return reply
