import { expect, test } from "bun:test";
import { classify, explain, RULES } from "../../../src/features/sessions/connections/error-rules.ts";
import { ERROR_CATEGORIES } from "../../../src/protocol/observability.ts";

for (const { source, codes, category, likelyCause, suggestedAction } of RULES) {
  test.each(codes.map((code) => [code]))(`[7] ${source} %s is ${category}, with cause and advice`, (code) => {
    expect(classify({ source, code })).toEqual({ category, code, likelyCause, suggestedAction });
    expect(explain(category, code)).toEqual({ likelyCause, suggestedAction });
    expect(likelyCause).toMatch(/^[A-Z].+\.$/);
    expect(suggestedAction).toMatch(/^[A-Z].+\.$/);
  });
}

test("[7] no two rules of one source have an error code in common", () => {
  for (const source of ["refused", "transport", "client"]) {
    const codes = RULES.filter((rule) => rule.source === source).flatMap((rule) => rule.codes);
    expect(new Set(codes).size).toBe(codes.length);
  }
});

test("[7] a code without a rule has exactly one category", () => {
  expect(classify({ source: "refused", code: "SOMETHING_NEW" }).category).toBe("UNKNOWN_ERROR");
  expect(classify({ source: "transport", code: "something_new" }).category).toBe("UNKNOWN_ERROR");
  expect(classify({ source: "client", code: "SomethingNewError" }).category).toBe("CLIENT_ERROR");
});

test("[7] every category is reachable", () => {
  const reachable = new Set([...RULES.map(({ category }) => category), "UNKNOWN_ERROR"]);
  expect([...reachable].sort()).toEqual([...ERROR_CATEGORIES].sort());
});
