-- Decides a batch of operations on buckets. The arithmetic is that of package store, operation for
-- operation, on the same doubles: the Go code repeats it over the records that this script returns,
-- and so knows the answer of each caller.
--
-- KEYS are the distinct keys of the batch. If there are none, they follow ARGV[1]: then they may be
-- of any slots that this server of a cluster owns. ARGV[1] is described at encode in batch.go.
-- The answer is the clock, and for each key its record as it was before, behind its length, or a
-- status.
--
-- Times are microseconds since 1970. A double holds all from -2^53 to forever exactly.
local forever, none = 9007199254740992, -1 / 0 -- none: there is no block
local longest = 9223372036854775 -- the longest wait in microseconds

local absent, moved, foreign, damaged, failed = '\0', '\252', '\253', '\254', '\255'
local call, pcall = redis.call, redis.pcall
local decode, encode = struct.unpack, struct.pack
local max, min, ceil, floor = math.max, math.min, math.ceil, math.floor
local byte, char, sub = string.byte, string.char, string.sub

local input = ARGV[1]
local injected, clock, skew, grace, solo, groups, txns, limits, at = decode('<BdddI2I2I2I2', input)
if injected == 0 then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end

-- The limits of the batch by number, and the form in which records contain each. capacities and
-- rates are those of a form.
local nolimit = '\0\0\0\0\0\0\0\0'
local forms, capacities, rates = {}, {}, {}
for k = 1, limits do
  local n, c, r
  n, c, r, at = decode('<Bdd', input, at)
  local form = sub(input, at, at + n - 1)
  at = at + n
  forms[k], capacities[form], rates[form] = form, c, r
end

-- decimal returns the number that four bytes of a form stand for; see limit.go.
local powers = {1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16}
local function decimal(u)
  local e = floor(u / 67108864)
  local m = u - e * 67108864
  if e < 16 then
    return m / powers[16 - e]
  elseif e == 16 then
    return m
  end
  return m * powers[e - 16]
end

-- learn fills in the capacity and the rate of a form.
local function learn(form)
  local c, r
  if #form == 16 then
    c, r = decode('<dd', form)
  else
    c, r = decode('<I4I4', form)
    c = decimal(c)
    if r >= 2147483648 then
      r = c / decimal(r - 2147483648)
    else
      r = decimal(r)
    end
  end
  capacities[form], rates[form] = c, r
end

-- checksum returns the sum over the words of a record behind its first four bytes.
local function checksum(head, raw, from, length)
  local a, b, c, d, e, f = decode('<I4I4I4I4I4I4', raw, from)
  local sum = head + a * 3 + b * 5 + c * 7 + d * 11 + e * 13 + f * 17
  if length > 24 then
    a, b = decode('<I4I4', raw, from + 24)
    sum = sum + a * 19 + b * 23
    if length > 32 then
      a, b = decode('<I4I4', raw, from + 32)
      sum = sum + a * 29 + b * 31
      if length > 40 then
        a, b = decode('<I4I4', raw, from + 40)
        sum = sum + a * 37 + b * 41
      end
    end
  end
  return sum % 16777213
end

-- lasts returns the time in seconds since 1970 at which Redis removes the record, or 0 for never.
-- It is some minutes after the bucket has expired. It depends on the record alone, so that most
-- writes keep the time of the record before.
local function lasts(t, l, r, h, b)
  if r == 0 or h > 0 or grace < 0 then
    return 0
  end
  local e = t + l / r * 1000000
  if b > e then
    e = b
  end
  if e >= forever then
    return 0
  end
  return ceil(e / 60000000) * 60 + grace
end

-- read returns the fields of a record, and when Redis removes it, or nothing if it is damaged.
local lengths = {[32] = 28, [33] = 36, [34] = 36, [35] = 44, [36] = 36, [37] = 44, [38] = 44, [39] = 52}
local function read(raw)
  local head, n = byte(raw), #raw
  if n == 0 then
    return nil
  end
  local kind, lasting = head, false
  if head >= 40 then
    kind, lasting = head - 8, true
  end
  if lengths[kind] ~= n then
    return nil
  end
  local word, t, l = decode('<I4dd', raw)
  if word ~= head + 256 * checksum(head, raw, 5, n - 4) then
    return nil
  end
  local after = kind < 36 and 29 or 37
  local form = sub(raw, 21, after - 1)
  if not rates[form] then
    learn(form)
  end
  local h, b = 0, none
  if kind == 35 or kind == 39 then
    h, b = decode('<dd', raw, after)
  elseif kind == 33 or kind == 37 then
    h = decode('<d', raw, after)
  elseif kind ~= 32 and kind ~= 36 then
    b = decode('<d', raw, after)
  end
  return t, l, form, h, b, lasting and 0 or lasts(t, l, rates[form], h, b)
end

-- write writes a record. The record before ended at the time ended. It returns the error of the
-- server, if there is one.
local any = false -- something has been written
local function write(key, ended, t, l, form, h, b)
  local head, body = #form == 8 and 32 or 36, encode('<ddc0', t, l, form)
  if grace < 0 then
    head = head + 8
  end
  if h ~= 0 then
    head, body = head + 1, body .. encode('<d', h)
  end
  if b ~= none then
    head, body = head + 2, body .. encode('<d', b)
  end
  local raw = encode('<I4c0', head + 256 * checksum(head, body, 1, #body), body)
  local ends, done = lasts(t, l, rates[form], h, b), nil
  if ends == 0 then
    done = pcall('SET', key, raw)
  elseif ends == ended then
    done = pcall('SET', key, raw, 'KEEPTTL')
  else
    done = pcall('SET', key, raw, 'EXAT', ends)
  end
  if done.err then
    return done
  end
  any = true
end

-- fetch returns the records of all keys, and the statuses of those that have none.
local keys, count, status = KEYS, #KEYS, {}
local function fetch()
  if count == 0 then
    keys, count = {}, #ARGV - 1
    local raws = {}
    for i = 1, count do
      local key = ARGV[i + 1]
      local raw = pcall('GET', key)
      if type(raw) == 'table' then
        status[i] = string.find(raw.err, 'WRONGTYPE', 1, true) and foreign or moved
        raw = false
      end
      keys[i], raws[i] = key, raw
    end
    return raws
  end
  local raws
  if count <= 4000 then -- Lua passes less than 8000 arguments
    raws = call('MGET', unpack(KEYS))
  else
    raws = {}
    for first = 1, count, 4000 do
      local last = min(first + 3999, count)
      for i, raw in ipairs(call('MGET', unpack(KEYS, first, last))) do
        raws[first + i - 1] = raw
      end
    end
  end
  for i = 1, count do
    if not raws[i] and call('EXISTS', keys[i]) == 1 then -- MGET finds nothing in a value of another type
      status[i] = foreign
    end
  end
  return raws
end
local raws = fetch()

-- postponed returns the end of a block whose bucket had the time t, ahead of the clock, after that
-- time was set to the clock.
local function postponed(b, t)
  if b > clock and b < forever then
    -- Each of the differences that are computed is small enough for a double.
    b = b <= t and clock or t < 0 and b - (t - clock) or clock + (b - t)
    if b == 0 then -- it would mean that there is no block
      b = 1
    end
  end
  return b
end

-- before + before * tick is the next double above before.
local tick = 2 ^ -53 + 2 ^ -105

-- tries decides IfFits of amounts alone, the usual operations, by one capacity and leak rate:
-- those of one key in ascending order, as runs of equal ones. After the first that does not fit
-- none fits. Until now the bucket has leaked at the rate was. It returns the time and the level
-- afterwards, or nothing if they stay. The input goes on at the runs.
local function tries(open, t, l, h, c, r, was, n, times, more)
  local now, went = t > clock and t or clock, false
  if was ~= r and n <= c then -- from now on it leaks at r, also if all are refused
    l, t, went = max(0, l - was * ((now - t) / 1000000)), now, true
  end
  while true do
    if open then
      for _ = 1, times do
        local before = l
        if now > t then
          before = l - r * ((now - t) / 1000000)
          if before < 0 then
            before = 0
          end
        end
        local after = before + n
        if after == before then -- an amount never goes in for nothing
          after = before + before * tick
        end
        if before + h + n > c or after + h > c then
          open = false
          break
        end
        if before ~= l or before == 0 or r == 0 then -- else the leak was lost in rounding
          t = now
        end
        l, went = after, true
      end
    end
    if more == 0 then
      break
    end
    more = more - 1
    n, times, at = decode('<dI4', input, at)
  end
  if went then
    return t, l
  end
end

local answer, size = {encode('<d', clock)}, 1

-- The first keys have such operations alone.
for i = 1, solo do
  local _, k, n, times, more
  _, k, n, times, more, at = decode('<I2I2dI4I2', input, at)
  local form = forms[k]
  local c, r = capacities[form], rates[form]
  local raw = raws[i]
  local t, l, was, h, b, ended, skewed
  if status[i] then -- nothing to decide
    tries(false, 0, 0, 0, c, r, r, n, times, more)
  elseif raw then
    t, l, was, h, b, ended = read(raw)
    if not t then
      status[i] = damaged
      tries(false, 0, 0, 0, c, r, r, n, times, more)
    end
  else
    t, l, was, h, b, ended = clock, 0, nolimit, 0, none, -1
  end
  if t then
    if t - clock > skew then -- as unskew below
      b, t, skewed = postponed(b, t), clock, true
    end
    local newt, newl = tries(b <= t or b <= clock, t, l, h, c, r, was == nolimit and r or rates[was], n, times, more)
    local err
    if newt then
      err = write(keys[i], ended, newt, newl, form, h, b)
    elseif skewed then
      err = write(keys[i], ended, t, l, was, h, b)
    end
    if err then
      if not any then -- Redis refuses the first write of a script, or none: nothing was applied
        return err
      end
      status[i] = failed
    end
  end
  size = size + 1
  if status[i] then
    answer[size] = status[i]
  elseif raw then
    answer[size] = char(#raw)
    size = size + 1
    answer[size] = raw
  else
    answer[size] = absent
  end
end
if solo == count then
  return table.concat(answer)
end

-- The fields of the other records, by the number of their key.
local level, held, time, limit, blocked = {}, {}, {}, {}, {}
local expiry, written, deleted, reported = {}, {}, {}, {}
if not rates[nolimit] then
  learn(nolimit)
end
for i = solo + 1, count do
  local raw = raws[i]
  if not status[i] then
    if raw then
      local t, l, form, h, b, ends = read(raw)
      if t then
        time[i], level[i], limit[i], held[i], blocked[i], expiry[i] = t, l, form, h, b, ends
      else
        status[i] = damaged
      end
    else
      time[i], level[i], limit[i], held[i], blocked[i], expiry[i] = clock, 0, nolimit, 0, none, -1
    end
  end
end

-- leaked is Record.LevelAt.
local function leaked(i, now)
  if now <= time[i] then
    return level[i]
  end
  return max(0, level[i] - rates[limit[i]] * ((now - time[i]) / 1000000))
end

-- unskew is Record.unskew.
local function unskew(i)
  if time[i] - clock > skew then
    blocked[i], time[i], written[i] = postponed(blocked[i], time[i]), clock, true
  end
end

-- settles reports whether the bucket has leaked at another rate than that of form until now.
local function settles(i, form)
  return form ~= nolimit and limit[i] ~= nolimit and rates[limit[i]] ~= rates[form]
end

-- settle is Record.settle.
local function settle(i, form, now)
  if settles(i, form) then
    level[i], time[i], limit[i], written[i] = leaked(i, now), now, form, true
  end
end

-- block is Record.block. The duration has two parts, whose sum need not be a double; -1 stands for
-- the time until the bucket is empty.
local function block(i, now, form, long, short)
  if long == -1 then
    long, short = 0, 0
    local l = leaked(i, now)
    if l > 0 then
      long = ceil(l / rates[form] * 1000000)
      if not (long < longest) then
        long, short = 9223372036854774, 1
      end
    end
  end
  local ends = min(now + long + short, forever)
  if ends > max(blocked[i], now) then
    blocked[i], written[i] = ends == 0 and 1 or ends, true
    if limit[i] == nolimit then
      limit[i] = form
    end
  end
end

for _ = 1, groups do
  local i, k, n, times, more
  i, k, n, times, more, at = decode('<I2I2dI4I2', input, at)
  local form = forms[k]
  local c, r = capacities[form], rates[form]
  if status[i] then
    tries(false, 0, 0, 0, c, r, r, n, times, more)
  else
    unskew(i)
    local was = limit[i] == nolimit and r or rates[limit[i]]
    local t, l = tries(blocked[i] <= max(time[i], clock), time[i], level[i], held[i], c, r, was, n, times, more)
    if t then
      time[i], level[i], limit[i], written[i] = t, l, form, true
    end
  end
end

-- The codes of operations are the modes of package store, and two more. Ask stands beside others
-- alone, and is then decided as iffits.
local iffits, clamp, always, ask, blocks, unblocks, prunes, deletes = 0, 1, 2, 3, 4, 5, 6, 7

-- forget makes the bucket as if it had never been.
local function forget(i)
  level[i], held[i], time[i], limit[i], blocked[i] = 0, 0, clock, nolimit, none
  written[i], deleted[i] = nil, true
end

-- fill is Record.Fill. It returns whether the operation was accepted, or nil if that returns an
-- error.
local function fill(o)
  local i, mode, form = o.i, o.mode, o.form
  if mode == blocks then
    unskew(i)
    block(i, max(time[i], clock), form, o.long, o.short)
    return true
  elseif mode == unblocks then
    unskew(i)
    if blocked[i] ~= none then
      blocked[i], written[i] = none, true
    end
    return true
  elseif mode == deletes then
    forget(i)
    return true
  elseif mode == prunes then
    local past = clock - skew
    if raws[i] and not (rates[limit[i]] == 0 or held[i] > 0 or blocked[i] > past or time[i] > past)
      and leaked(i, past) == 0 then
      forget(i)
    end
    return true
  end
  local amount, hold = o.n, o.hold
  if amount == 0 and hold == 0 then
    return true
  end
  if form == nolimit then -- the limit last written
    form = limit[i]
    if form == nolimit then
      return not (hold < 0 or amount > 0) or nil
    end
  end
  local c, r = capacities[form], rates[form]
  local h = held[i] + hold
  if hold ~= 0 then
    local most = max(c, capacities[limit[i]])
    if hold > 0 then
      if hold < most * 2 ^ -38 then
        return nil
      end
    elseif h < -(most * 2 ^ -40) then
      return nil
    elseif h < most * 2 ^ -40 then
      h = 0
    end
  end
  unskew(i)
  local now, changes = max(time[i], clock), settles(i, form)
  local before, last = leaked(i, now), now
  if before == level[i] and before > 0 and r > 0 and not changes then
    last = time[i]
  end
  local rim = c
  if o.ceiling ~= 0 then
    local ceiling = o.ceiling
    if o.sinks then
      ceiling = ceiling - r * (max(0, now - o.since) / 1000000)
    end
    rim = min(rim, ceiling)
  end
  local n = amount + hold
  local after = max(0, before + amount)
  local room = before + held[i] + n <= rim
  if amount > 0 and after == before then -- an amount never goes in for nothing
    after = before + before * tick
    room = room and after + (held[i] + hold) <= rim
  end
  local accepted = mode == always or (room and blocked[i] <= now)
  if mode == clamp and not room then
    after = max(before, rim - held[i])
  end
  local idle = amount < 0 and hold == 0 and before == 0
  if (accepted or mode == clamp) and not idle then
    level[i], held[i], time[i], limit[i], written[i] = after, h, last, form, true
  elseif not accepted and changes and n <= c then
    settle(i, form, now)
  end
  if not accepted and (o.long ~= 0 or o.short ~= 0) then
    block(i, now, form, o.long, o.short)
  end
  return accepted
end

-- Transactions, each decided as Decide does.
for _ = 1, txns do
  local size
  size, at = decode('<I2', input, at)
  local ops, bad = {}, false
  for j = 1, size do
    local o = {}
    local flags, k
    o.i, flags, k, o.n, o.hold, o.ceiling, o.since, o.long, o.short, at = decode('<I2BI2dddddd', input, at)
    o.mode, o.sinks, o.form = flags % 16, flags >= 16, forms[k]
    local i = o.i
    if status[i] == damaged and o.mode == deletes then -- whatever is there goes
      status[i], reported[i] = nil, damaged
      forget(i)
    end
    if status[i] then
      bad = true
    else
      o.before = {level[i], held[i], time[i], limit[i], blocked[i], written[i]}
    end
    ops[j] = o
  end
  local accepted, error, asks = true, bad, false
  for j = 1, bad and 0 or size do
    local o = ops[j]
    local went = fill(o)
    if went == nil then
      error = true
      break
    end
    asks = asks or o.mode == ask
    if (o.mode == iffits or o.mode == ask) and not went then
      o.refused, accepted = true, false
    end
  end
  if not bad and (error or asks or not accepted) then
    for j = 1, size do
      local i, b = ops[j].i, ops[j].before
      level[i], held[i], time[i], limit[i], blocked[i], written[i] = b[1], b[2], b[3], b[4], b[5], b[6]
    end
  end
  if not error and not accepted then
    local sums, never = {}, false -- never: a bucket cannot take its operations, however long it leaks
    for j = 1, size do
      local o = ops[j]
      local sum = (sums[o.i] or 0) + (o.n + o.hold)
      sums[o.i], never = sum, never or (sum > capacities[o.form] and o.form ~= nolimit)
    end
    for j = 1, size do
      local o = ops[j]
      if o.mode ~= ask then
        if o.n ~= 0 or o.hold ~= 0 then
          unskew(o.i)
          if not never then
            settle(o.i, o.form, max(time[o.i], clock))
          end
        end
        if o.refused and (o.long ~= 0 or o.short ~= 0) then
          block(o.i, max(time[o.i], clock), o.form, o.long, o.short)
        end
      end
    end
  elseif not error and asks then
    for j = 1, size do
      if ops[j].mode ~= ask then
        fill(ops[j])
      end
    end
  end
end

for i = solo + 1, count do
  local raw, err = raws[i], nil
  if written[i] then
    err = write(keys[i], expiry[i], time[i], level[i], limit[i], held[i], blocked[i])
  elseif deleted[i] and raw then
    local done = pcall('DEL', keys[i])
    if type(done) == 'table' then
      err = done
    else
      any = true
    end
  end
  if err then
    if not any then
      return err
    end
    status[i] = failed
  end
  size = size + 1
  local state = status[i] or reported[i]
  if state then
    answer[size] = state
  elseif raw then
    answer[size] = char(#raw)
    size = size + 1
    answer[size] = raw
  else
    answer[size] = absent
  end
end
return table.concat(answer)
