import { useState } from "preact/hooks";
import { ERROR_CATEGORIES, type ErrorCategory } from "../../../../src/protocol/observability.ts";
import { useChoice, useFilter } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { Bars } from "../../parts/bars.tsx";
import { ErrorCard, groupErrors } from "../../parts/call/error-card.tsx";
import { TextInput } from "../../parts/form.tsx";
import { countText } from "../../parts/numbers.ts";
import { humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { useProject } from "../../project.ts";

const HOURS = { "1h": 1, "24h": 24, "7d": 168 } as const;
type Range = keyof typeof HOURS;
const RANGES = Object.keys(HOURS) as Range[];

/** Errors by category, with what to do about them. */
export function Errors() {
  const { at, environment, projectId } = useProject();
  const [range, setRange] = useChoice("range", RANGES, "24h");
  const [category, setCategory] = useFilter<ErrorCategory>("category");
  const [text, setText] = useState("");
  const metrics = usePolling(
    () => request(at.metrics.get({ query: { environment, range } })),
    [projectId, environment, range],
  );
  const errors = useList(
    (page) => requestPage(at.errors.get({ query: { ...page, environment, ...(category !== "" && { category }) } })),
    [projectId, environment, category],
  );
  const wanted = text.trim().toLowerCase();
  const since = new Date(Date.now() - HOURS[range] * 3_600_000).toISOString();
  const recent = errors.data?.filter(({ occurredAt }) => occurredAt >= since) ?? [];
  const found = recent.filter((one) => `${one.message} ${one.code} ${one.likelyCause}`.toLowerCase().includes(wanted));
  return (
    <>
      <PageHead title="Errors">
        <Choice label="Time" value={range} onValue={setRange} options={RANGES} />
      </PageHead>
      <Loaded live={metrics}>
        {({ errors: { byCategory, total } }) =>
          total > 0 && (
            <section class="card stack">
              <h2>By kind</h2>
              <Bars
                label="Errors by kind"
                bars={ERROR_CATEGORIES.filter((one) => one === category || byCategory[one]).map((one) => ({
                  id: one,
                  label: humanize(one),
                  value: byCategory[one] ?? 0,
                  text: countText(byCategory[one] ?? 0),
                  chosen: one === category,
                  onChoose: () => setCategory(one === category ? "" : one),
                }))}
              />
            </section>
          )
        }
      </Loaded>
      <section class="stack">
        <div class="row filters">
          {recent.length > 0 && (
            <TextInput type="search" label="Search errors" placeholder="Search  /" value={text} onValue={setText} />
          )}
          {category !== "" && (
            <button type="button" class="button" onClick={() => setCategory("")}>
              Only {humanize(category)} ×
            </button>
          )}
        </div>
        <Loaded live={errors} isEmpty={() => recent.length === 0} empty="There were no errors in this period.">
          {() =>
            found.length === 0 ? (
              <div class="empty">Nothing here matches “{text}”.</div>
            ) : (
              groupErrors(found).map((group) => <ErrorCard key={group[0].id} group={group} linked />)
            )
          }
        </Loaded>
        {errors.more && recent.length === errors.data?.length && (
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
