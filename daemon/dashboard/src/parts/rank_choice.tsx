// The choice of a rank: from a list if it is short, else by number. `words` are choices other than one rank.
const listed_most = 256;

export function RankChoice({ label = "Rank", value, world, words = [], onChange }: {
  label?: string;
  value: string;
  world: number;
  words?: readonly { value: string; word: string }[];
  onChange: (value: string) => void;
}) {
  const listed_attempt = world <= listed_most;
  const single = !words.some((choice) => choice.value === value);
  const number = (text: string) => {
    const rank = Math.floor(Number(text));
    if (text !== "" && rank >= 0 && rank < world) onChange(String(rank));
  };
  return (
    <>
      {(listed_attempt || words.length > 0) && (
        <label class="field"><span>{label}</span>
          <select value={single && !listed_attempt ? "one" : value} onChange={(event) => onChange(event.currentTarget.value === "one" ? "0" : event.currentTarget.value)}>
            {words.map((choice) => <option key={choice.value} value={choice.value}>{choice.word}</option>)}
            {listed_attempt ? Array.from({ length: world }, (_, rank) => <option key={rank} value={String(rank)}>{rank}</option>) : <option value="one">one rank</option>}
          </select></label>
      )}
      {!listed_attempt && single && (
        <label class="field"><span>{words.length > 0 ? `of 0 to ${world - 1}` : label}</span>
          <input type="number" min="0" max={world - 1} step="1" value={value} aria-label={`${label}, 0 to ${world - 1}`} onChange={(event) => number(event.currentTarget.value)} /></label>
      )}
    </>
  );
}
