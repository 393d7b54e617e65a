import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Polled } from "../live.ts";
import { TextInput } from "./form.tsx";
import { Loaded } from "./states.tsx";
import { Table, type TableProps } from "./table.tsx";

type ListProps<Row> = Omit<TableProps<Row>, "rows"> & {
  live: Polled<Row[]> & { more?: boolean; showMore?: () => void };
  /** The searchable text of a row; without it the list has no search. */
  search?: (row: Row) => string;
  /** Additional controls beside the search. */
  filters?: ComponentChildren;
  empty: ComponentChildren;
};

/** A table with search, filters and paging. */
export function List<Row>({ live, search, filters, empty, ...table }: ListProps<Row>) {
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  // An empty list needs no search.
  const searched = live.data !== null && live.data.length > 0 ? search : undefined;
  return (
    <section class="stack">
      {(searched || filters) && (
        <div class="row filters">
          {searched && (
            <TextInput
              type="search"
              label={`Search ${table.label}`}
              placeholder="Search  /"
              value={text}
              onValue={setText}
            />
          )}
          {filters}
        </div>
      )}
      <Loaded live={live} isEmpty={(rows) => rows.length === 0} empty={empty}>
        {(rows) => {
          const found = search ? rows.filter((row) => search(row).toLowerCase().includes(wanted)) : rows;
          return (
            <>
              {found.length === 0 ? (
                <div class="empty">Nothing here matches “{text}”.</div>
              ) : (
                <Table {...table} rows={found} />
              )}
              {live.more && (
                <div class="row">
                  <button type="button" class="button" onClick={live.showMore}>
                    Show more
                  </button>
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </section>
  );
}
