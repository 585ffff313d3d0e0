-- list.lua: the whole board at one moment.
-- KEYS[1] listings (hash)   KEYS[2] sequence   KEYS[3] attempts (hash)
-- ARGV[1] what keys of owners begin with, up to the field. These keys follow from the fields and are not in KEYS: they cannot be known before. On a
-- cluster they are in the slot of KEYS[1], for the namespace has a tag.
-- Reply: {server time in µs, sequence or nil, entries of attempts, {field, record ...}, {owner or nil ...}, {index from 1, ms until that owner's claim expires ...}}
local now = redis.call('TIME')
local all = redis.call('HGETALL', KEYS[1])
local owners, expiries = {}, {}
local chunk = 1000
for from = 1, #all, 2 * chunk do
  local names = {}
  for i = from, math.min(from + 2 * chunk - 1, #all), 2 do
    names[#names + 1] = ARGV[1] .. all[i] .. '.owned'
  end
  for i, owner in ipairs(redis.call('MGET', unpack(names))) do
    owners[#owners + 1] = owner
    if owner then
      local left = redis.call('PTTL', names[i])
      if left >= 0 then
        expiries[#expiries + 1] = #owners
        expiries[#expiries + 1] = math.max(left, 1) -- 0 is the rest of the last millisecond
      end
    end
  end
end
return {now[1] * 1000000 + now[2], redis.call('GET', KEYS[2]), redis.call('HLEN', KEYS[3]), all, owners, expiries}
