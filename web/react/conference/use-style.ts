import { type RefObject, useEffect } from "react";
import { CONFERENCE_STYLE } from "./style.ts";

const STYLED = Symbol.for("stoa.conference.style");

/**
 * Gives the document or the shadow root that the element stands in the conference's look, once. A constructed sheet is no
 * inline style: the strictest content policy lets it be.
 */
export function useStyle(element: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const root = element.current?.getRootNode();
    if (!(root instanceof Document || root instanceof ShadowRoot)) return;
    const marked = root as (Document | ShadowRoot) & { [STYLED]?: true };
    if (marked[STYLED]) return;
    marked[STYLED] = true;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(CONFERENCE_STYLE);
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  }, [element]);
}
