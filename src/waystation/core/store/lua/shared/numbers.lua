--- A number written out in full, which Lua would shorten to 1.7e+15.
local function format_int(number)
  return string.format('%.0f', math.floor(number))
end
