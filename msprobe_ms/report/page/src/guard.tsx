// A part that fails is said to, and does not take the others with it.

import { Component, type ComponentChildren } from "preact";
import { Failure } from "./marks.tsx";

export class Guard extends Component<{ children: ComponentChildren }, { failure: string }> {
  state = { failure: "" };

  static getDerivedStateFromError(failure: unknown): { failure: string } {
    return { failure: String(failure) };
  }

  render() {
    return this.state.failure ? <Failure text={this.state.failure} /> : this.props.children;
  }
}
