-- line.lua: the state of a lock and its line; stands between common.lua and the scripts that need them: not renew.lua, for each call of a
-- script makes all of its functions anew. woken and news are who was called, and what is to be told of it.
local called_for = tonumber(ARGV[2])
local woken, news = {}, {}

-- What is left of the line without those whose place is over. It writes, but changes nothing that counts.
local function tidy(s)
  if not s.queued then return end
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', s.places, '-inf', text(ms), 'LIMIT', 0, 1000)) do
    redis.call('ZREM', s.line, m)
    redis.call('ZREM', s.places, m)
  end
  local n = redis.call('ZCARD', s.line)
  if n ~= redis.call('ZCARD', s.places) then -- somebody deleted a part by hand
    redis.call('DEL', s.line, s.places)
    n = 0
  end
  s.queued = n > 0
end

-- One cell of a rate: when, and how many items.
local function cell(s, i)
  local at, n = string.match(redis.call('HGET', s.lock, text(i)) or '', '^(%d+) (%d+)$')
  return tonumber(at) or 0, tonumber(n) or 0
end

-- The state of a lock, read only. room: how many may have it now, the line left aside (for write and read see may_enter).
-- holder, left: one that has it and the ms it still may, -1 = for ever.
local state = {}

function state.mutex(s)
  local holder = s.there and redis.call('GET', s.lock)
  if not holder then return {room = 1} end
  return {room = 0, holder = holder, left = redis.call('PTTL', s.lock)}
end

function state.read(s)
  local st = {live = 0, foreign = 0, last = 0, dead = {}, leases = {}}
  if not s.there then return st end
  local all, field, leases = redis.call('HGETALL', s.lock), {}, 0
  for i = 1, #all, 2 do
    local name, value = all[i], all[i + 1]
    if string.sub(name, 1, 2) ~= 'r:' then
      field[name] = value
    else
      local owner, till = string.sub(name, 3), tonumber(value) or 0
      leases = leases + 1
      if till > ms then
        st.live = st.live + 1
        st.leases[owner] = till
        if till > st.last then st.last, st.reader = till, owner end
      else
        st.dead[#st.dead + 1] = name
      end
    end
  end
  st.foreign = math.max(0, (tonumber(field.readers) or 0) - leases)
  if st.foreign > 0 and foreign_grace > 0 then
    local count, since = string.match(field.foreign_since or '', '^(%d+) (%d+)$')
    if tonumber(count) ~= st.foreign then
      since = ms
      st.note = text(st.foreign) .. ' ' .. text(ms)
    end
    st.foreign_till = tonumber(since) + foreign_grace
    if st.foreign_till <= ms then st.foreign = 0 end
  end
  local till = tonumber(field.writer_until)
  if field.writer_owner and (not till or till > ms) then -- a peer's writer has no writer_until: its key expires
    st.writer = field.writer_owner
    st.left = till and till - ms or redis.call('PTTL', s.lock)
  end
  till = tonumber(field.writer_wait_until) or 0
  if till > ms then st.intent, st.intent_till = tonumber(field.writer_wait) or us, till end
  return st
end

state.write = state.read

function state.conc(s)
  if not s.there then return {room = s.limit} end
  local st = {room = s.limit - redis.call('ZCOUNT', s.lock, '(' .. text(ms), '+inf')}
  local first = redis.call('ZRANGEBYSCORE', s.lock, '(' .. text(ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[1] then st.holder, st.left = first[1], math.ceil(tonumber(first[2])) - ms end
  return st
end

function state.rate(s)
  local st = {room = s.limit, first = 0, after = 0, used = 0, over = {}}
  if not s.there then return st end
  local v = redis.call('HMGET', s.lock, 'first', 'next', 'used')
  st.first, st.after, st.used = tonumber(v[1]) or 0, tonumber(v[2]) or 0, tonumber(v[3]) or 0
  while st.first < st.after do
    local at, n = cell(s, st.first)
    -- A cell a whole window ahead is from before the server's clock was set back.
    if at > us - s.window and at <= us + s.window then break end
    st.over[#st.over + 1] = text(st.first)
    st.first, st.used = st.first + 1, st.used - n
  end
  if st.first == st.after then st.used = 0 end
  st.room = s.limit - st.used
  return st
end

-- Calls those whose turn it is; those right behind them are told to look when their time is over: one of them may be dead, too.
local behind = 3
local function call(s)
  if not s.queued then return end
  tidy(s)
  s.there = redis.call('EXISTS', s.lock) == 1
  local st = state[s.kind](s)
  local room, line = st.room, nil
  if room then
    if room <= 0 then return end
    room = math.min(room, 100)
    line = redis.call('ZRANGE', s.line, 0, room + behind - 1)
  elseif st.writer then
    return
  else
    line, room = redis.call('ZRANGE', s.line, 0, 100), 0
    if not line[1] then return end
    if st.intent and st.intent < tonumber(redis.call('ZSCORE', s.line, line[1])) then return end
    if string.sub(line[1], 1, 1) == 'w' then
      if st.live + st.foreign > 0 then return end
      room = 1
    else
      while line[room + 1] and string.sub(line[room + 1], 1, 1) == 'r' do room = room + 1 end
    end
  end
  local fresh = false
  for i, m in ipairs(line) do
    local name = string.sub(m, 2)
    if i > room then
      if not fresh or i > room + behind then return end
      news[#news + 1] = '?' .. name
    elseif tonumber(redis.call('ZSCORE', s.places, m)) > ms + called_for then
      redis.call('ZADD', s.places, text(ms + called_for), m)
      woken[#woken + 1] = name
      news[#news + 1] = '!' .. name
      fresh = true
    end
  end
end

-- Takes a waiter out of a line; says whether it stood there.
local function leave(s, waiter)
  if not s.queued then return false end
  local n = redis.call('ZREM', s.line, 'r' .. waiter, 'w' .. waiter)
  redis.call('ZREM', s.places, 'r' .. waiter, 'w' .. waiter)
  s.queued = redis.call('EXISTS', s.line) == 1
  return n > 0
end

-- Tells everybody who was called. Nothing depends on it: waiters also look by themselves.
local function publish()
  if #news > 0 then redis.pcall('PUBLISH', ARGV[1], table.concat(news, '\n')) end
end

-- A number higher than any before: microseconds of the server's clock, or one more than the last. The last is kept for ten minutes,
-- so that a clock set back by no more cannot repeat a number.
local function fence(s)
  local last = tonumber(redis.call('GET', s.fence) or '') or 0
  local f = text(math.max(us, last + 1))
  redis.call('SET', s.fence, f, 'PX', 600000)
  return f
end
