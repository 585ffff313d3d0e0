-- claim.lua: claim the first postings of a list that are there and that nobody owns.
-- KEYS[1] listings (hash)   KEYS[2] fence   KEYS[3] attempts (hash)   KEYS[4] sequence   KEYS[5...] owners of the candidates, then as many last_modified
-- ARGV[1] owner   ARGV[2] ms the claims live, '' = for ever   ARGV[3] record for last_modified
-- ARGV[4] '1' = a claim that the owner has already is given again   ARGV[5] how many claims   ARGV[6...] fields of the candidates
-- Reply: {'ok', sequence, per claim: index of the candidate from 1, fence, attempt} | {'claimed', index of the first that is, its owner} | {'not_found'}
-- Nobody is told of a claim: it is no news to who waits for work, and who watches finds it.
local n, most = #ARGV - 5, tonumber(ARGV[5])
local owners = redis.call('MGET', unpack(KEYS, 4, n + 4)) -- the sequence, then owners; what is no text is missing
local reply, claimed, fence = {'ok', tonumber(owners[1] or 0)}, nil, nil
local modified = {}
for i = 1, n do
  local owner, field = owners[i + 1], ARGV[i + 5]
  local ours = owner and ARGV[4] == '1' and owner == ARGV[1]
  if owner and not ours then
    if not claimed and redis.call('HEXISTS', KEYS[1], field) == 1 then claimed = {'claimed', i, owner} end
  elseif redis.call('HEXISTS', KEYS[1], field) == 1 then
    -- The numbers first: these commands fail on keys of another type, and what was written before would stay. Fences may have gaps.
    fence = fence or redis.call('INCRBY', KEYS[2], most) - most
    local attempt = redis.call('HINCRBY', KEYS[3], field, 1)
    local set = {'SET', KEYS[i + 4], ARGV[1]}
    if ARGV[2] ~= '' then
      set[4], set[5] = 'PX', ARGV[2]
    end
    if not ours then set[#set + 1] = 'NX' end -- refuses a key that is no text, too
    if redis.call(unpack(set)) then
      modified[#modified + 1] = KEYS[i + n + 4]
      modified[#modified + 1] = ARGV[3]
      local at = #reply
      fence = fence + 1
      reply[at + 1], reply[at + 2], reply[at + 3] = i, fence, attempt
      if at + 3 >= 2 + 3 * most then break end
    else
      redis.call('HINCRBY', KEYS[3], field, -1)
      claimed = claimed or {'claimed', i, 'a key that is no text'}
    end
  end
end
if #reply == 2 then return claimed or {'not_found'} end
redis.call('MSET', unpack(modified))
return reply
