-- print.lua: fingerprints of the board: of everything, which is another one when anything was posted, removed, claimed or released, and of what nobody owns.
-- KEYS[1] listings (hash)   KEYS[2] sequence
-- ARGV[1] what keys of owners begin with, as in list.lua
-- Reply: {fingerprint of everything, of what nobody owns, records}
local fields = redis.call('HKEYS', KEYS[1])
local all, free = redis.call('GET', KEYS[2]) or '', ''
local chunk = 1000
for from = 1, #fields, chunk do
  local names, parts, unowned = {}, {all}, {free}
  for i = from, math.min(from + chunk - 1, #fields) do
    names[#names + 1] = ARGV[1] .. fields[i] .. '.owned'
    parts[#parts + 1] = fields[i]
  end
  for i, owner in ipairs(redis.call('MGET', unpack(names))) do
    parts[#parts + 1] = owner or ''
    if not owner then unowned[#unowned + 1] = fields[from + i - 1] end
  end
  all = redis.sha1hex(table.concat(parts, '\n'))
  free = redis.sha1hex(table.concat(unowned, '\n'))
end
return {all, free, #fields}
