/** The half of the SDK that the dashboard uses, so that the other half is not part of the page. */
export { connect } from "../sdk/index.ts";
