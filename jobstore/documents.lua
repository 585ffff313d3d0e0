-- documents.lua: read the documents of job orders, as many as fit into a number of bytes. Writes nothing.
-- KEYS     the document of the order and that of the response of each job order, in turn
-- ARGV[1]  bytes at most
-- Reply    the values in the order of KEYS, nil for what is absent or no string, of the first job orders that fit, at least one
local most, bytes, read = tonumber(ARGV[1]), 0, {}
for from = 1, #KEYS, 16 do -- some at once: few commands, and little is read in vain
  local docs = redis.call('MGET', unpack(KEYS, from, math.min(from + 15, #KEYS)))
  for i = 1, #docs, 2 do
    bytes = bytes + #(docs[i] or '') + #(docs[i + 1] or '')
    if bytes > most and #read > 0 then return read end
    read[#read + 1], read[#read + 2] = docs[i], docs[i + 1]
  end
end
return read
