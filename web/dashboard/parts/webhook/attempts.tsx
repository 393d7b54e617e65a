import { durationText } from "../time.tsx";

export type Attempt = { at: string; statusCode: number | null; durationMs: number; error: string | null };

/** One mark for each attempt: green for those that were taken. */
export function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  const taken = attempts.filter(({ error }) => error === null).length;
  return (
    <span class="attempts" role="img" aria-label={`${attempts.length} attempts, ${taken} taken`}>
      {attempts.map(({ at, statusCode, durationMs, error }) => (
        <span
          key={at}
          class={error === null ? "good" : "bad"}
          title={`${statusCode ?? "no answer"} after ${durationText(durationMs)}${error === null ? "" : `: ${error}`}`}
        />
      ))}
    </span>
  );
}
