import { useState } from "preact/hooks";
import { ERROR_CATEGORIES, type ErrorCategory } from "../../../src/protocol/observability.ts";
import { ask, askPage } from "../api.ts";
import { useList, useLive } from "../live.ts";
import { Bars } from "../parts/bars.tsx";
import { TextInput } from "../parts/form.tsx";
import { Mishap } from "../parts/mishap.tsx";
import { countText } from "../parts/numbers.ts";
import { PageHead, Shown, words } from "../parts/states.tsx";
import { Choice } from "../parts/tabs.tsx";
import { useFilter } from "../place.ts";
import { useProject } from "../project.ts";

const RANGES = ["1h", "24h", "7d"] as const;
type Range = (typeof RANGES)[number];

/** What went wrong, by kind, with what to do about it. */
export function Errors() {
  const { at, environment, projectId } = useProject();
  const [range, setRange] = useState<Range>("24h");
  const [category, setCategory] = useFilter<ErrorCategory>("category");
  const [text, setText] = useState("");
  const metrics = useLive(
    () => ask(at.metrics.get({ query: { environment, range } })),
    [projectId, environment, range],
  );
  const errors = useList(
    (page) => askPage(at.errors.get({ query: { ...page, environment, ...(category !== "" && { category }) } })),
    [projectId, environment, category],
  );
  const wanted = text.trim().toLowerCase();
  return (
    <>
      <PageHead title="Errors">
        <Choice label="Time" value={range} onValue={setRange} options={RANGES} />
      </PageHead>
      <section class="card stack">
        <h2>By kind</h2>
        <Shown live={metrics}>
          {({ errors: { byCategory } }) => (
            <Bars
              label="Errors by kind"
              bars={ERROR_CATEGORIES.map((one) => ({
                id: one,
                label: words(one),
                value: byCategory[one] ?? 0,
                text: countText(byCategory[one] ?? 0),
                chosen: one === category,
                onChoose: () => setCategory(one === category ? "" : one),
              }))}
            />
          )}
        </Shown>
      </section>
      <section class="stack">
        <div class="row filters">
          <TextInput type="search" label="Search errors" placeholder="Search  /" value={text} onValue={setText} />
          {category !== "" && (
            <button type="button" class="button" onClick={() => setCategory("")}>
              Only {words(category)} ×
            </button>
          )}
        </div>
        <Shown live={errors} isEmpty={(list) => list.length === 0} empty="Nothing has gone wrong here. May it stay so.">
          {(list) =>
            list
              .filter(({ message, code, likelyCause }) =>
                `${message} ${code} ${likelyCause}`.toLowerCase().includes(wanted),
              )
              .map((error) => <Mishap key={error.id} error={error} linked />)
          }
        </Shown>
        {errors.more && (
          <div>
            <button type="button" class="button" onClick={errors.showMore}>
              Show more
            </button>
          </div>
        )}
      </section>
    </>
  );
}
