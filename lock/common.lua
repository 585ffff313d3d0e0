-- common.lua: what all scripts of this package share; it stands before each of them.
-- KEYS     per lock: lock, line (zset), places (zset) and, for mutex, write and read, fence (string)
-- ARGV[1]  channel of the wakes   ARGV[2]  ms in which a called waiter comes, or loses its place
-- ARGV[3]  ms after which readers without a lease are taken for dead, 0 = never
-- then     what the script says of its own, then per lock six: kind (mutex, write, read, conc, rate), time to live in ms,
--          limit, window in µs, items, mark ("" or what take.lua replied)
--
-- A lock as stored: mutex = string, owner. write, read = one hash: writer_owner, writer_until (ms), r:<owner> = ms until the
-- lease of a reader ends, readers = how many there are; readers beyond the leases have none (peers that only count: foreign), and
-- foreign_since = "<how many> <ms when first seen>"; writer_wait = µs since when a writer without a place in the line waits, and
-- writer_wait_until (ms). conc = zset, owner -> ms until its slot ends. rate = hash: cells first to next-1, each
-- "<µs> <items>" under its number; used = items in them; limit and window to be looked at.
-- Line: member -> turn (µs, strictly rising). Places: the same members -> ms until the place is kept. A member is "r" for a
-- reader, "w" for all else, and the waiter's name. Whose turn it is, is called: its place is then kept for ARGV[2] only.
local clock = redis.call('TIME')
local us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local ms = math.floor(us / 1000)
local foreign_grace = tonumber(ARGV[3])

local stored = {mutex = 'string', write = 'hash', read = 'hash', conc = 'zset', rate = 'hash'}

-- Exact up to 2^53, which tostring is not.
local function text(n) return string.format('%.0f', n) end

-- The locks named from ARGV[at] on.
local function locks(at)
  local all, k = {}, 1
  while ARGV[at] do
    local s = {
      kind = ARGV[at], ttl = tonumber(ARGV[at + 1]), limit = tonumber(ARGV[at + 2]), window = tonumber(ARGV[at + 3]),
      items = tonumber(ARGV[at + 4]), mark = ARGV[at + 5], lock = KEYS[k], line = KEYS[k + 1], places = KEYS[k + 2],
    }
    k = k + 3
    if s.kind ~= 'conc' and s.kind ~= 'rate' then
      s.fence = KEYS[k]
      k = k + 1
    end
    all[#all + 1] = s
    at = at + 6
  end
  return all
end

-- Looks at every key of a lock. s.there: the lock's key exists; s.queued: its line may hold somebody; s.bad: {key, type wanted, type
-- found} of one that holds something else, which then counts as absent.
local function look(s)
  local function is(key, want)
    local have = redis.call('TYPE', key).ok
    if have == 'none' then return false end
    if have ~= want then s.bad = s.bad or {key, want, have} end
    return have == want
  end
  s.there = is(s.lock, stored[s.kind])
  local line, places = is(s.line, 'zset'), is(s.places, 'zset')
  s.queued = line or places
  if s.fence then is(s.fence, 'string') end
  return s.bad
end

-- Readers of peers have no lease that would keep the key: while there are some, it does not expire. In a few steps, whatever their number.
local function keep_foreign(s)
  if foreign_grace > 0 then return end
  local known = {'readers', 'writer_owner', 'writer_until', 'writer_wait', 'writer_wait_until', 'foreign_since'}
  local v, leases = redis.call('HMGET', s.lock, unpack(known)), redis.call('HLEN', s.lock)
  for i = 1, #known do
    if v[i] then leases = leases - 1 end
  end
  if (tonumber(v[1]) or 0) > leases then redis.call('PERSIST', s.lock) end
end

-- Slots of a concurrency limiter go with the last of them, and an hour more for peers that lengthen theirs without the key's.
local function expire_slots(s)
  local last = redis.call('ZRANGE', s.lock, -1, -1, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', s.lock, text(math.ceil(tonumber(last[2])) + 3600000)) end
end
